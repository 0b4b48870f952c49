-- An execution's row, as `shardctl explain` needs it.
SELECT uuid_send(job_id), shardwheel.ms(scheduled_at), state, coalesce(reason, ''), origin, shardwheel.ms(due_at), attempt, failures, crashes,
       coalesce(worker, ''), shardwheel.ms(lease_until), shardwheel.ms(timeout_at), reported_offset IS NOT NULL, shardwheel.ms(cancel_requested_at),
       shardwheel.ms(created_at), shardwheel.ms(started_at), shardwheel.ms(ended_at), duration_ms
  FROM shardwheel.executions
 WHERE execution_id = %(execution_id)s AND tenant_id = %(tenant_id)s
