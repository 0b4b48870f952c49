-- The worker learns it at its next heartbeat.
UPDATE shardwheel.executions SET cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp())
 WHERE execution_id = %(execution_id)s AND tenant_id = %(tenant_id)s AND state = 'running'
