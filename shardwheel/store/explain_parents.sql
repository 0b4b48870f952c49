-- What a task waits for: its parents, and how they stand in the latest run that it is part of (its DAG's, or that of the
-- job at its root). Nothing for any other job.
WITH child AS MATERIALIZED (
  SELECT j.job_id, j.dag_id, r.kind
    FROM shardwheel.jobs AS j
    JOIN shardwheel.jobs AS r ON r.job_id = j.dag_id
   WHERE j.job_id = %(job_id)s AND j.tenant_id = %(tenant_id)s AND j.kind = 'task'
),
run AS MATERIALIZED (
  SELECT r.dag_run_id, r.version, r.state
    FROM child AS c
    JOIN shardwheel.dag_runs AS r ON r.dag_id = c.dag_id
   WHERE EXISTS (SELECT FROM shardwheel.dag_tasks AS t WHERE t.dag_id = r.dag_id AND t.version = r.version AND t.task_id = c.job_id)
   ORDER BY r.dag_run_id DESC
   LIMIT 1
)
SELECT c.kind, uuid_send(c.dag_id), uuid_send(run.dag_run_id), coalesce(run.state, ''), uuid_send(e.parent_id), coalesce(x.state, 'pending')
  FROM child AS c
  LEFT JOIN run ON true
  JOIN shardwheel.dag_edges AS e ON e.dag_id = c.dag_id AND e.child_id = c.job_id
   AND e.version = coalesce(run.version, (SELECT max(v.version) FROM shardwheel.dag_versions AS v WHERE v.dag_id = c.dag_id))
  LEFT JOIN shardwheel.executions AS x ON x.dag_run_id = run.dag_run_id AND x.job_id = e.parent_id AND x.item_no IS NULL
 ORDER BY e.parent_id
