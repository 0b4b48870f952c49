-- How the tasks of a run stand; no state: it waits for its parents. Which are over without the run's having been told, in
-- the same statement: whoever puts that off does not lock the run.
SELECT uuid_send(t.task_id), t.task_key, t.fan_out, x.state, x.reason, p.task_id IS NOT NULL
  FROM shardwheel.dag_tasks AS t
  LEFT JOIN shardwheel.executions AS x ON x.dag_run_id = %(run_id)s AND x.job_id = t.task_id AND x.item_no IS NULL
  LEFT JOIN shardwheel.dag_put_off AS p ON p.dag_run_id = %(run_id)s AND p.task_id = t.task_id AND p.item_no = -1
 WHERE t.dag_id = %(dag_id)s AND t.version = %(version)s
 ORDER BY t.task_id
