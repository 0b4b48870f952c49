-- How the tasks of a run stand; no state: it waits for its parents. Which are over without the run's having been told, in
-- the same statement: whoever puts that off does not lock the run. Grouped, not joined: of a table that has just grown the
-- planner takes ten thousand rows for one, and would go through all executions of the run for each of its tasks.
SELECT uuid_send(s.task_id), max(s.task_key), bool_or(s.fan_out), max(s.state), max(s.reason), bool_or(s.is_untold)
  FROM (SELECT t.task_id, t.task_key, t.fan_out, NULL AS state, NULL AS reason, false AS is_untold
          FROM shardwheel.dag_tasks AS t
         WHERE t.dag_id = %(dag_id)s AND t.version = %(version)s
         UNION ALL
        SELECT x.job_id, NULL, NULL, x.state, x.reason, false
          FROM shardwheel.executions AS x
         WHERE x.dag_run_id = %(run_id)s AND x.item_no IS NULL
         UNION ALL
        SELECT p.task_id, NULL, NULL, NULL, NULL, true
          FROM shardwheel.dag_put_off AS p
         WHERE p.dag_run_id = %(run_id)s AND p.item_no = -1) AS s
 GROUP BY s.task_id
HAVING count(s.task_key) > 0
 ORDER BY s.task_id
