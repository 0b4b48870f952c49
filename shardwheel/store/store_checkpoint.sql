UPDATE shardwheel.executions SET checkpoint = %(data)s::text::jsonb
 WHERE execution_id = %(execution_id)s AND attempt = %(attempt)s AND claim_token = %(token)s AND state = 'running'
RETURNING 1
