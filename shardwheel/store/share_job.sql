SELECT 1 FROM shardwheel.jobs WHERE job_id = %(job_id)s AND tenant_id = %(tenant_id)s FOR SHARE
