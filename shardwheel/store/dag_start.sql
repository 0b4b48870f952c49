-- The run of each DAG whose fire was claimed just now, in the same transaction: its shape pinned. The claim holds the
-- DAG's row, which an edit locks before it adds a version. What a trigger gave is the run's; a job that has children keeps
-- its own to itself.
INSERT INTO shardwheel.dag_runs AS r
       (dag_run_id, tenant_id, partition, dag_id, version, origin, request_id, scheduled_at, sla_at, params, unfinished)
SELECT x.execution_id, x.tenant_id, x.partition, x.job_id, v.version, x.origin, x.request_id, x.scheduled_at,
       x.scheduled_at + v.sla_ms * interval '1 millisecond', CASE WHEN j.kind = 'dag' THEN x.params END,
       coalesce(v.tasks, (SELECT count(*) FROM shardwheel.dag_tasks AS t WHERE t.dag_id = v.dag_id AND t.version = v.version))
  FROM shardwheel.executions AS x
  JOIN shardwheel.jobs AS j USING (job_id)
 CROSS JOIN LATERAL (SELECT v.dag_id, v.version, v.sla_ms, v.tasks FROM shardwheel.dag_versions AS v
                      WHERE v.dag_id = x.job_id ORDER BY v.version DESC LIMIT 1) AS v
 WHERE x.execution_id = ANY (%(execution_ids)s::uuid[])
 ORDER BY x.execution_id
ON CONFLICT DO NOTHING
RETURNING uuid_send(r.dag_run_id)
