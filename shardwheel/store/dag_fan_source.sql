-- What a fan-out is made from: its task's params with those of the run's trigger over them, and its parent's output, or the outputs of its parent's items.
SELECT convert_to((j.params || coalesce(r.params, '{}'))::text, 'UTF8'), p.fan_out, x.item_no, convert_to(x.output::text, 'UTF8')
  FROM shardwheel.jobs AS j
  JOIN shardwheel.dag_runs AS r ON r.dag_run_id = %(run_id)s
  JOIN shardwheel.dag_edges AS e ON e.dag_id = %(dag_id)s AND e.version = %(version)s AND e.child_id = j.job_id
  JOIN shardwheel.dag_tasks AS p ON p.dag_id = e.dag_id AND p.version = e.version AND p.task_id = e.parent_id
  JOIN shardwheel.executions AS x ON x.dag_run_id = %(run_id)s AND x.job_id = e.parent_id
 WHERE j.job_id = %(task_id)s
 ORDER BY x.item_no NULLS FIRST
