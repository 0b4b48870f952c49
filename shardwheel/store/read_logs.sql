SELECT attempt, first_line, convert_to(lines::text, 'UTF8') FROM shardwheel.execution_logs
 WHERE execution_id = %(execution_id)s AND tenant_id = %(tenant_id)s AND attempt = coalesce(%(attempt)s::bigint, attempt)
 ORDER BY attempt, first_line
