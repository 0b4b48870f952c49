-- What changed since a snapshot: whatever that one could not see. A change that commits later has an xid that
-- this snapshot can't see either, and comes next time, however long its transaction took.
SELECT job_id, partition, active, version, schedule, anchor_ms, start_ms, last_ms, jitter_ms, misfire, misfire_grace_ms, catchup_window_ms,
       pool, priority, schedule_no, schedule_xid, effective_from_ms
  FROM shardwheel.job_entries
 WHERE partition = ANY (%(partitions)s) AND changed_xid >= pg_snapshot_xmin(%(since)s::pg_snapshot)
   AND NOT pg_visible_in_snapshot(changed_xid, %(since)s::pg_snapshot)
