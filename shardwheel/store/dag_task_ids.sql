-- The jobs of a version's tasks, by key.
SELECT task_key, uuid_send(task_id) FROM shardwheel.dag_tasks WHERE dag_id = %(dag_id)s AND version = %(version)s AND tenant_id = %(tenant_id)s
