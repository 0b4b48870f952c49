-- A run that has no row yet: its fire will find this one and die at the claim.
INSERT INTO shardwheel.executions (execution_id, tenant_id, partition, job_id, kind, origin, state, reason, scheduled_at, due_at, ended_at)
VALUES (%(execution_id)s, %(tenant_id)s, %(partition)s, %(job_id)s, 0, 'schedule', 'cancelled', 'cancelled', shardwheel.at(%(scheduled_ms)s),
        shardwheel.at(%(scheduled_ms)s), clock_timestamp())
ON CONFLICT DO NOTHING
