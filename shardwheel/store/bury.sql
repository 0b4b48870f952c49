-- Dead letters: all that is needed to understand and replay an execution that was given up, stored in the
-- transaction that gives it up, before anyone is alerted.
INSERT INTO shardwheel.dead_letters
       (dead_letter_id, tenant_id, partition, execution_id, job_id, dag_run_id, task, params, job, origin, scheduled_at, attempt, failures,
        crashes, reason, class, message, traceback, worker, attempts, checkpoint, progress, trace)
SELECT gen_random_uuid(), x.tenant_id, x.partition, x.execution_id, x.job_id, x.dag_run_id, j.task, coalesce(x.params, j.params),
       to_jsonb(j), x.origin, x.scheduled_at, x.attempt, x.failures, x.crashes, coalesce(x.reason, ''), last.class, last.message,
       last.traceback, last.worker,
       (SELECT coalesce(jsonb_agg(to_jsonb(a) ORDER BY a.attempt), '[]') FROM shardwheel.attempts AS a WHERE a.execution_id = x.execution_id),
       x.checkpoint, x.progress, x.trace
  FROM shardwheel.executions AS x
  JOIN shardwheel.jobs AS j USING (job_id)
  LEFT JOIN LATERAL (SELECT a.* FROM shardwheel.attempts AS a WHERE a.execution_id = x.execution_id ORDER BY a.attempt DESC LIMIT 1) AS last ON true
 WHERE x.execution_id = ANY (%(execution_ids)s::uuid[]) AND x.state = 'dead'
 ORDER BY x.execution_id
ON CONFLICT (execution_id, attempt) DO NOTHING
