-- The tasks that wait for nobody. (A job that is the root of its run has begun already.)
SELECT uuid_send(r.dag_run_id), uuid_send(t.task_id), t.fan_out
  FROM shardwheel.dag_runs AS r
  JOIN shardwheel.dag_tasks AS t ON t.dag_id = r.dag_id AND t.version = r.version
 WHERE r.dag_run_id = ANY (%(run_ids)s::uuid[]) AND t.in_degree = 0 AND t.task_id <> r.dag_id
