-- When somebody changed a job last.
SELECT shardwheel.ms(updated_at) FROM shardwheel.jobs WHERE job_id = %(job_id)s AND tenant_id = %(tenant_id)s
