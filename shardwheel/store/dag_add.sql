-- Executions of tasks: queued, or recorded as over. One that exists stays as it is, unless it waited for its parents
-- again. Which were made. What the run's trigger gave goes over the params of its tasks.
INSERT INTO shardwheel.executions AS x
       (execution_id, tenant_id, partition, job_id, kind, origin, state, reason, scheduled_at, due_at, dag_run_id, item_no, params,
        started_at, ended_at)
SELECT t.execution_id, r.tenant_id, r.partition, t.task_id, 4, 'dag', t.state, nullif(t.reason, ''), r.scheduled_at,
       date_trunc('milliseconds', clock_timestamp()), r.dag_run_id, nullif(t.item_no, -1),
       coalesce(nullif(t.params, '')::jsonb,
                CASE WHEN r.params IS NOT NULL THEN (SELECT j.params FROM shardwheel.jobs AS j WHERE j.job_id = t.task_id) || r.params END),
       CASE WHEN t.state = 'running' THEN clock_timestamp() END,
       CASE WHEN t.state NOT IN ('queued', 'running') THEN clock_timestamp() END
  FROM unnest(%(execution_ids)s::uuid[], %(run_ids)s::uuid[], %(task_ids)s::uuid[], %(item_nos)s::bigint[], %(states)s::text[],
              %(reasons)s::text[], %(params)s::text[])
    AS t (execution_id, run_id, task_id, item_no, state, reason, params)
  JOIN shardwheel.dag_runs AS r ON r.dag_run_id = t.run_id
 ORDER BY t.execution_id
ON CONFLICT (execution_id) DO UPDATE
   SET state = excluded.state, reason = excluded.reason, due_at = excluded.due_at, attempt = x.attempt + 1, failures = 0, crashes = 0,
       cancel_requested_at = NULL, started_at = excluded.started_at, ended_at = excluded.ended_at
 WHERE x.state = 'skipped' AND x.reason = 'pending_again'
RETURNING uuid_send(x.execution_id)
