-- How the tasks of a run stand; no state: it waits for its parents.
SELECT uuid_send(t.task_id), t.task_key, t.fan_out, x.state, x.reason
  FROM shardwheel.dag_tasks AS t
  LEFT JOIN shardwheel.executions AS x ON x.dag_run_id = %(run_id)s AND x.job_id = t.task_id AND x.item_no IS NULL
 WHERE t.dag_id = %(dag_id)s AND t.version = %(version)s
 ORDER BY t.task_id
