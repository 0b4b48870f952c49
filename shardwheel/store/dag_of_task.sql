-- The DAG of a task, and the task's key; nothing for any other job.
SELECT uuid_send(dag_id), task_key FROM shardwheel.jobs WHERE job_id = %(job_id)s AND tenant_id = %(tenant_id)s AND kind = 'task'
