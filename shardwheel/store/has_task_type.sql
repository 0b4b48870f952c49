SELECT 1 FROM shardwheel.task_types WHERE tenant_id = %(tenant_id)s AND task = %(task)s
