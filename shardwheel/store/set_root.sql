-- A job has children from now on (dag_id is its own), or none any more (null). Its row is locked.
UPDATE shardwheel.jobs SET dag_id = CASE WHEN %(has_children)s THEN job_id END WHERE job_id = %(job_id)s
