-- More of a deleted job is held than could be ended at once: the sweep goes on with it.
INSERT INTO shardwheel.deleted_held (job_id, tenant_id, partition)
SELECT j.job_id, j.tenant_id, j.partition FROM shardwheel.jobs AS j WHERE j.job_id = %(job_id)s
ON CONFLICT DO NOTHING
