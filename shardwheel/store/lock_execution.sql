-- How an execution stands, held until the transaction ends, and whether it was asked to stop.
SELECT state, cancel_requested_at IS NOT NULL
  FROM shardwheel.executions
 WHERE execution_id = %(execution_id)s AND tenant_id = %(tenant_id)s
   FOR UPDATE
