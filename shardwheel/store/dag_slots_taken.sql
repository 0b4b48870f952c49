-- Which run has each DAG's slot.
SELECT uuid_send(job_id), uuid_send(execution_id) FROM shardwheel.overlap_slots WHERE job_id = ANY (%(dag_ids)s::uuid[])
