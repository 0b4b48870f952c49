SELECT uuid_send(job_id) FROM shardwheel.executions WHERE execution_id = %(execution_id)s AND tenant_id = %(tenant_id)s
