-- Times of a work row become waiting executions. One that ran, runs or waits is left alone; a backfill queues a
-- skipped one again, under its id (not one that began a run and was skipped there: that run's hands can).
INSERT INTO shardwheel.executions AS x (execution_id, tenant_id, partition, job_id, kind, origin, state, scheduled_at, due_at, schedule_no)
SELECT execution_id, %(tenant_id)s, %(partition)s, %(job_id)s, 0, %(origin)s, 'queued', shardwheel.at(scheduled_ms), shardwheel.at(due_ms),
       %(schedule_no)s
  FROM unnest(%(execution_ids)s::uuid[], %(scheduled)s::bigint[], %(due)s::bigint[]) AS t (execution_id, scheduled_ms, due_ms)
 ORDER BY execution_id
ON CONFLICT (execution_id) DO UPDATE
   SET state = 'queued', origin = excluded.origin, reason = NULL, ended_at = NULL, due_at = excluded.due_at
 WHERE %(requeue_skipped)s AND x.state = 'skipped' AND x.dag_run_id IS NULL
