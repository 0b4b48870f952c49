SELECT execution_id, job_id, partition, attempt, due_ms, scheduled_ms, pool, priority, changed_xid_number
  FROM shardwheel.waiting_entries
 WHERE partition = ANY (%(partitions)s)
