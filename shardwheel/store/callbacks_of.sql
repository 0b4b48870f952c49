-- Who was, or is to be, told of the ends of some executions.
SELECT uuid_send(execution_id), uuid_send(callback_id), url, state, tries, problem, CASE WHEN state = 'open' THEN shardwheel.ms(due_at) END, shardwheel.ms(ended_at)
  FROM shardwheel.callbacks
 WHERE execution_id = ANY (%(execution_ids)s) AND tenant_id = %(tenant_id)s
 ORDER BY created_at, callback_id
