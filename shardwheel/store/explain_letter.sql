-- The latest dead letter of an execution.
SELECT uuid_send(dead_letter_id), state, reason, uuid_send(redriven_as)
  FROM shardwheel.dead_letters
 WHERE execution_id = %(execution_id)s AND tenant_id = %(tenant_id)s
 ORDER BY attempt DESC
 LIMIT 1
