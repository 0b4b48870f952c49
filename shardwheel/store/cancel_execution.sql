UPDATE shardwheel.executions SET state = 'cancelled', reason = 'cancelled', ended_at = clock_timestamp()
 WHERE execution_id = %(execution_id)s AND tenant_id = %(tenant_id)s AND state IN ('queued', 'retry_wait', 'held')
