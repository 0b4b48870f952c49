INSERT INTO shardwheel.skip_ranges (job_id, first_at, last_at, tenant_id, partition, count, reason, schedule_no)
VALUES (%(job_id)s, shardwheel.at(%(first_ms)s), shardwheel.at(%(last_ms)s), %(tenant_id)s, %(partition)s, %(count)s, %(reason)s, %(schedule_no)s)
ON CONFLICT DO NOTHING
