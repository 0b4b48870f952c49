-- The failed tasks of a run, and failed items, run again: the next attempt, as if none had failed before. Fan-outs go
-- on with the items that failed; what never became items waits for its parent again, as does what was skipped because
-- something failed. Items of what somebody ended by hand are not needed any more. Its run is locked, and nothing of it waits or runs that is looked at here;
-- what the run has not been told of is not over yet.
WITH failed AS MATERIALIZED (
  SELECT x.execution_id, x.job_id, x.item_no, x.state, x.reason, x.item_no IS NULL AND t.fan_out AS is_fan, f.task_id IS NOT NULL AS has_items
    FROM shardwheel.executions AS x
    JOIN shardwheel.dag_tasks AS t ON t.dag_id = %(dag_id)s AND t.version = %(version)s AND t.task_id = x.job_id
    LEFT JOIN shardwheel.dag_fans AS f ON f.dag_run_id = x.dag_run_id AND f.task_id = x.job_id
   WHERE x.dag_run_id = %(run_id)s
     AND (x.state IN ('dead', 'cancelled') OR x.state = 'skipped' AND x.reason IN ('upstream_failed', 'upstream_skipped', 'run_failed'))
     AND NOT EXISTS (SELECT FROM shardwheel.dag_put_off AS p
                      WHERE p.dag_run_id = x.dag_run_id AND p.task_id = x.job_id AND p.item_no = coalesce(x.item_no, -1))
     AND (x.item_no IS NULL OR EXISTS (SELECT FROM shardwheel.executions AS o
                                        WHERE o.dag_run_id = x.dag_run_id AND o.job_id = x.job_id AND o.item_no IS NULL
                                          AND o.state IN ('dead', 'cancelled', 'running')))
     AND (%(all)s OR x.job_id = ANY (%(task_ids)s::uuid[]) OR x.execution_id = ANY (%(execution_ids)s::uuid[])
          OR x.state = 'skipped' AND x.item_no IS NULL)
   ORDER BY x.execution_id
     FOR UPDATE OF x
),
again AS (
  UPDATE shardwheel.executions AS x
     SET state = CASE WHEN f.goes = 'again' THEN 'queued' WHEN f.goes = 'on' THEN 'running' ELSE 'skipped' END,
         reason = CASE WHEN f.goes = 'pending' THEN 'pending_again' END,
         attempt = x.attempt + (f.goes = 'again')::int, failures = 0, crashes = 0, cancel_requested_at = NULL, ended_at = NULL,
         due_at = CASE WHEN f.goes = 'again' THEN date_trunc('milliseconds', clock_timestamp()) + %(wait_ms)s * interval '1 millisecond' ELSE x.due_at END
    FROM (SELECT execution_id,
                 CASE WHEN is_fan AND has_items THEN 'on'
                      WHEN is_fan OR state = 'skipped' AND item_no IS NULL THEN 'pending' ELSE 'again' END AS goes
            FROM failed) AS f
   WHERE x.execution_id = f.execution_id
  RETURNING x.execution_id, x.job_id, x.item_no, x.state
),
opened AS (
  UPDATE shardwheel.dag_fans AS f
     SET open_items = greatest(f.open_items, 0) + a.n, failed_items = greatest(f.failed_items - a.n, 0)
    FROM (SELECT job_id, count(*) AS n FROM again WHERE item_no IS NOT NULL GROUP BY job_id) AS a
   WHERE f.dag_run_id = %(run_id)s AND f.task_id = a.job_id
),
redriven AS (
  UPDATE shardwheel.dead_letters AS d
     SET state = 'redriven', redriven_as = d.execution_id, resolved_by = %(actor)s, resolved_at = clock_timestamp()
    FROM again AS a
   WHERE d.execution_id = a.execution_id AND a.state = 'queued' AND d.state = 'open'
)
SELECT uuid_send(execution_id), state FROM again
