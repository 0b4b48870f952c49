-- Of some jobs: what they are, and the DAG or the job whose runs they belong to, or would with children.
SELECT uuid_send(job_id), kind, uuid_send(coalesce(dag_id, job_id)) FROM shardwheel.jobs
 WHERE job_id = ANY (%(job_ids)s::uuid[]) AND tenant_id = %(tenant_id)s
