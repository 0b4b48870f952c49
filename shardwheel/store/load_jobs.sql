SELECT job_id, partition, active, version, schedule, anchor_ms, start_ms, last_ms, jitter_ms, misfire, misfire_grace_ms, catchup_window_ms,
       pool, priority, schedule_no, schedule_xid, effective_from_ms
  FROM shardwheel.job_entries
 WHERE partition = ANY (%(partitions)s) AND state = 'active'
