-- The failed tasks of a run, and failed items, run again: the next attempt, as if none had failed before. Fan-outs go
-- on with the items that failed, and with those that were skipped because the run failed; what never became items waits for
-- its parent again, as does what was skipped because something failed. Items of what somebody ended by hand are not needed
-- any more. A policy leaves alone what somebody has cancelled, and does nothing where nothing is dead. Its run is locked, and
-- nothing of it waits or runs that is looked at here; what the run has not been told of is not over yet.
-- What belongs to an execution is looked up for each, and counted by grouping: of ten thousand that run again the planner may
-- know nothing, and joins would take their square.
WITH own AS MATERIALIZED (  -- With each item the execution of its fan-out; a task's is its own.
  SELECT x.execution_id, first_value(x.execution_id) OVER same AS own_id, first_value(x.state) OVER same AS state,
         first_value(x.reason) OVER same AS reason
    FROM shardwheel.executions AS x
   WHERE x.dag_run_id = %(run_id)s
  WINDOW same AS (PARTITION BY x.job_id ORDER BY x.item_no NULLS FIRST)
),
over AS MATERIALIZED (
  SELECT x.execution_id, x.job_id, x.item_no, x.state, x.reason, x.item_no IS NULL AND t.fan_out AS is_fan, f.task_id IS NOT NULL AS has_items
    FROM own AS o
    JOIN shardwheel.executions AS x ON x.execution_id = o.execution_id
   CROSS JOIN LATERAL (SELECT t.fan_out FROM shardwheel.dag_tasks AS t
                        WHERE t.dag_id = %(dag_id)s AND t.version = %(version)s AND t.task_id = x.job_id OFFSET 0) AS t
    LEFT JOIN LATERAL (SELECT f.task_id FROM shardwheel.dag_fans AS f
                        WHERE f.dag_run_id = %(run_id)s AND f.task_id = x.job_id OFFSET 0) AS f ON true
   WHERE (x.state = 'dead' OR x.state = 'cancelled' AND %(by_hand)s
          OR x.state = 'skipped' AND x.reason IN ('upstream_failed', 'upstream_skipped', 'run_failed'))
     AND (%(by_hand)s OR EXISTS (SELECT FROM shardwheel.executions AS d WHERE d.dag_run_id = %(run_id)s AND d.state = 'dead'))
     AND NOT EXISTS (SELECT FROM shardwheel.dag_put_off AS p
                      WHERE p.dag_run_id = x.dag_run_id AND p.task_id = x.job_id AND p.item_no = coalesce(x.item_no, -1))
     AND (x.item_no IS NULL OR o.state IN ('dead', 'cancelled', 'running') OR o.state = 'skipped' AND o.reason = 'run_failed')
     AND (%(all)s OR x.job_id = ANY (%(task_ids)s::uuid[]) OR x.execution_id = ANY (%(execution_ids)s::uuid[])
          OR x.state = 'skipped' AND (x.item_no IS NULL OR o.state IN ('running', 'skipped') OR o.own_id = ANY (%(execution_ids)s::uuid[])))
   ORDER BY x.execution_id
     FOR UPDATE OF x
),
going AS MATERIALIZED (  -- A fan-out that none of its items goes on with is over, as it was.
  SELECT v.execution_id, v.job_id, v.item_no, v.state,
         CASE WHEN is_fan AND has_items THEN 'on' WHEN is_fan OR state = 'skipped' AND item_no IS NULL THEN 'pending' ELSE 'again' END AS goes
    FROM over AS v
   WHERE NOT (is_fan AND has_items) OR EXISTS (SELECT FROM over AS i WHERE i.job_id = v.job_id AND i.item_no IS NOT NULL)
),
again AS (
  UPDATE shardwheel.executions AS x
     SET state = CASE WHEN g.goes = 'again' THEN 'queued' WHEN g.goes = 'on' THEN 'running' ELSE 'skipped' END,
         reason = CASE WHEN g.goes = 'pending' THEN 'pending_again' END,
         attempt = x.attempt + (g.goes = 'again')::int, failures = 0, crashes = 0, cancel_requested_at = NULL, ended_at = NULL,
         due_at = CASE WHEN g.goes = 'again' THEN date_trunc('milliseconds', clock_timestamp()) + %(wait_ms)s * interval '1 millisecond' ELSE x.due_at END
    FROM going AS g
   WHERE x.execution_id = g.execution_id
  RETURNING x.execution_id, x.job_id, x.item_no, x.state
),
opened AS (  -- What is left of them is counted anew.
  UPDATE shardwheel.dag_fans AS f
     SET open_items = greatest(f.open_items, 0) + a.n, failed_items = a.failed, skipped_items = a.skipped
    FROM (SELECT c.job_id, sum(c.n) AS n, sum(c.failed) AS failed, sum(c.skipped) AS skipped
            FROM (SELECT i.job_id, 0 AS n, (i.state IN ('dead', 'cancelled'))::int AS failed, (i.state = 'skipped')::int AS skipped
                    FROM shardwheel.executions AS i
                   WHERE i.dag_run_id = %(run_id)s AND i.item_no IS NOT NULL
                     AND NOT EXISTS (SELECT FROM shardwheel.dag_put_off AS p
                                      WHERE p.dag_run_id = i.dag_run_id AND p.task_id = i.job_id AND p.item_no = i.item_no)
                   UNION ALL
                  SELECT g.job_id, 1, -(g.state IN ('dead', 'cancelled'))::int, -(g.state = 'skipped')::int FROM going AS g WHERE g.item_no IS NOT NULL) AS c
           GROUP BY c.job_id
          HAVING sum(c.n) > 0) AS a
   WHERE f.dag_run_id = %(run_id)s AND f.task_id = a.job_id
),
redriven AS (
  UPDATE shardwheel.dead_letters AS d
     SET state = 'redriven', redriven_as = d.execution_id, resolved_by = %(actor)s, resolved_at = clock_timestamp()
    FROM again AS a
   WHERE d.execution_id = a.execution_id AND a.state = 'queued'
     AND d.state IS NOT DISTINCT FROM 'open'  -- by the execution, not by way of all letters that are open
)
SELECT uuid_send(execution_id), state FROM again
