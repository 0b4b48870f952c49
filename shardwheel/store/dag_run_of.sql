-- The run that an execution is a task of, or, as a DAG's own, stands for.
SELECT uuid_send(coalesce(x.dag_run_id, r.dag_run_id)), uuid_send(x.job_id), x.item_no, r.dag_run_id IS NOT NULL AND x.dag_run_id IS NULL
  FROM shardwheel.executions AS x
  LEFT JOIN shardwheel.dag_runs AS r ON r.dag_run_id = x.execution_id
 WHERE x.execution_id = %(execution_id)s AND x.tenant_id = %(tenant_id)s
