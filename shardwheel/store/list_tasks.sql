-- Task types that jobs name or that something was set for. Counting goes by holds and slots, not by executions.
WITH named AS (
  SELECT DISTINCT j.task FROM shardwheel.jobs AS j
   WHERE j.tenant_id = %(tenant_id)s AND j.state <> 'deleted' AND j.task <> '' AND (%(task)s::text IS NULL OR j.task = %(task)s)
   UNION
  SELECT t.task FROM shardwheel.task_types AS t WHERE t.tenant_id = %(tenant_id)s AND (%(task)s::text IS NULL OR t.task = %(task)s)
)
SELECT n.task, coalesce(t.paused, false), t.max_running, t.rate_per_s, t.burst, coalesce(t.breaker, true), shardwheel.ms(b.open_until),
       CASE WHEN t.max_running IS NOT NULL THEN
         (SELECT count(*) FROM shardwheel.task_slots AS s WHERE s.tenant_id = %(tenant_id)s AND s.task = n.task AND s.slot_no > 0 AND s.execution_id IS NOT NULL) END,
       (SELECT count(*) FROM shardwheel.executions AS x
         WHERE x.pending = 'held' AND x.tenant_id = %(tenant_id)s AND x.held_for = n.task
           AND x.reason IN ('task_paused', 'concurrency', 'rate_limit', 'breaker_open', 'handler_unknown'))
  FROM named AS n
  LEFT JOIN shardwheel.task_types AS t ON t.tenant_id = %(tenant_id)s AND t.task = n.task
  LEFT JOIN shardwheel.task_breakers AS b ON b.tenant_id = %(tenant_id)s AND b.task = n.task
 ORDER BY n.task
