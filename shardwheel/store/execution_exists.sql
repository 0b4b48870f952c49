SELECT 1 FROM shardwheel.executions WHERE execution_id = %(execution_id)s
