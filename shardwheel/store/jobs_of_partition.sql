-- All jobs of a tenant in one partition, deleted ones too: of which of them is an execution's id? Few enough to try all.
SELECT uuid_send(job_id) FROM shardwheel.jobs WHERE partition = %(partition)s AND tenant_id = %(tenant_id)s ORDER BY job_id
