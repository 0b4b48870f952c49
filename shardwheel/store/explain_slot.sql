-- Which execution of a job has the slot that others of it wait for.
SELECT uuid_send(execution_id) FROM shardwheel.overlap_slots WHERE job_id = %(job_id)s AND tenant_id = %(tenant_id)s
