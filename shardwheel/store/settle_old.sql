-- Times of an old schedule that may not have met the claim, in the transaction that ends it. Those that have
-- a row already (fired, claimed, cancelled) keep it.
INSERT INTO shardwheel.executions (execution_id, tenant_id, partition, job_id, kind, origin, state, reason, scheduled_at, due_at, schedule_no, ended_at)
SELECT execution_id, %(tenant_id)s, %(partition)s, %(job_id)s, 0, 'settled', %(state)s, %(reason)s, shardwheel.at(scheduled_ms),
       shardwheel.at(due_ms), %(schedule_no)s, CASE WHEN %(state)s = 'skipped' THEN clock_timestamp() END
  FROM unnest(%(execution_ids)s::uuid[], %(scheduled)s::bigint[], %(due)s::bigint[]) AS t (execution_id, scheduled_ms, due_ms)
 ORDER BY execution_id
ON CONFLICT (execution_id) DO NOTHING
