-- What changed since a snapshot: whatever that one could not see. A change that commits later has an xid that
-- this snapshot can't see either, and comes next time, however long its transaction took.
-- One statement, for one statement has one snapshot, and a shard that was poked waits for one answer, not for four.
-- A row is a job, a waiting execution, or, once, the snapshot to go on from, and of which PostgreSQL it is (see identity.sql): the
-- columns of the others are null.
SELECT job_id, partition, active, version, schedule, anchor_ms, start_ms, last_ms, jitter_ms, misfire, misfire_grace_ms, catchup_window_ms,
       pool, priority, schedule_no, schedule_xid, effective_from_ms,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL
  FROM shardwheel.job_entries
 WHERE partition = ANY (%(partitions)s) AND changed_xid >= pg_snapshot_xmin(%(since)s::pg_snapshot)
   AND NOT pg_visible_in_snapshot(changed_xid, %(since)s::pg_snapshot)
 UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       execution_id, job_id, partition, attempt, due_ms, scheduled_ms, pool, priority, changed_xid_number,
       NULL, NULL, NULL, NULL
  FROM shardwheel.waiting_entries
 WHERE partition = ANY (%(partitions)s) AND changed_xid >= pg_snapshot_xmin(%(since)s::pg_snapshot)
   AND NOT pg_visible_in_snapshot(changed_xid, %(since)s::pg_snapshot)
 UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       pg_current_snapshot()::text, pg_snapshot_xmin(pg_current_snapshot())::text,
       system_identifier::text, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int::text
  FROM pg_control_system()
