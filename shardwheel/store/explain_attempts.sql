-- What became of each attempt, the first one first.
SELECT attempt, outcome, coalesce(class, ''), coalesce(message, ''), coalesce(worker, ''), shardwheel.ms(started_at), shardwheel.ms(ended_at)
  FROM shardwheel.attempts
 WHERE execution_id = %(execution_id)s AND tenant_id = %(tenant_id)s
 ORDER BY attempt
