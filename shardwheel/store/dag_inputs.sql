-- The outputs of a task's parents in its run; of a parent that fans out, its items' in order.
SELECT p.task_key, p.fan_out, o.item_no, o.state, convert_to(o.output::text, 'UTF8')
  FROM shardwheel.executions AS x
  JOIN shardwheel.dag_runs AS r ON r.dag_run_id = x.dag_run_id
  JOIN shardwheel.dag_edges AS e ON e.dag_id = r.dag_id AND e.version = r.version AND e.child_id = x.job_id
  JOIN shardwheel.dag_tasks AS p ON p.dag_id = e.dag_id AND p.version = e.version AND p.task_id = e.parent_id
  JOIN shardwheel.executions AS o ON o.dag_run_id = r.dag_run_id AND o.job_id = e.parent_id
 WHERE x.execution_id = %(execution_id)s
 ORDER BY p.task_key, o.item_no NULLS FIRST
