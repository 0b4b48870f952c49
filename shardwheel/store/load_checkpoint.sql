SELECT convert_to(coalesce(checkpoint::text, 'null'), 'UTF8') FROM shardwheel.executions
 WHERE execution_id = %(execution_id)s AND attempt = %(attempt)s AND claim_token = %(token)s AND state = 'running'
