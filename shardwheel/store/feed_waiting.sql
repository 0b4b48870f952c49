SELECT execution_id, job_id, partition, attempt, due_ms, scheduled_ms, pool, priority, changed_xid_number
  FROM shardwheel.waiting_entries
 WHERE partition = ANY (%(partitions)s) AND changed_xid >= pg_snapshot_xmin(%(since)s::pg_snapshot)
   AND NOT pg_visible_in_snapshot(changed_xid, %(since)s::pg_snapshot)
