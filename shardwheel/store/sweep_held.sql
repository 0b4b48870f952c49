-- Executions that a task type holds and holds no longer go on, oldest first, as many as would find room: the claim
-- decides again. What a type holds is looked at once, however much it is; of each reason a page of types, after the one
-- looked at last. Returned is the last of each page that was full.
WITH hold AS MATERIALIZED (
  SELECT r.reason, h.tenant_id, h.held_for
    FROM unnest(%(reasons)s::text[], %(after_tenants)s::text[], %(after_tasks)s::text[]) AS r (reason, after_tenant, after_task)
   CROSS JOIN LATERAL shardwheel.holds(r.reason, r.after_tenant, r.after_task, %(page)s) AS h
),
release AS MATERIALIZED (
  SELECT h.reason, h.tenant_id, h.held_for,
         CASE h.reason
           WHEN 'task_paused' THEN CASE WHEN t.paused THEN 0 ELSE %(most)s END
           WHEN 'concurrency' THEN CASE WHEN t.max_running IS NULL THEN %(most)s ELSE (
             SELECT count(*) FROM (SELECT FROM shardwheel.task_slots AS s
                                    WHERE s.tenant_id = h.tenant_id AND s.task = h.held_for AND s.execution_id IS NULL
                                      AND s.slot_no BETWEEN 1 AND t.max_running LIMIT %(most)s) AS free) END
           -- Those that are there, and those that come until the next sweep.
           WHEN 'rate_limit' THEN CASE WHEN t.rate_per_s IS NULL THEN %(most)s ELSE
             floor(least(t.burst, u.tokens + extract(epoch FROM clock_timestamp() - u.refilled_at) * t.rate_per_s)) + ceil(2 * t.rate_per_s) END
           WHEN 'breaker_open' THEN CASE WHEN b.open_until IS NULL THEN %(most)s WHEN b.open_until > clock_timestamp() THEN 0 ELSE (
             SELECT count(*) FROM shardwheel.task_slots AS s
              WHERE s.tenant_id = h.tenant_id AND s.task = h.held_for AND s.slot_no = 0 AND s.execution_id IS NULL) END
           WHEN 'handler_unknown' THEN CASE WHEN EXISTS (SELECT FROM shardwheel.workers AS w
             WHERE w.seen_at > clock_timestamp() - %(silence)s AND h.held_for = ANY (w.tasks)) THEN %(most)s ELSE 0 END
           -- Where all workers of its pool have the handler: else it might meet one that has not, again and again. Those
           -- that have it fetch it (held_for_workers).
         END AS room
    FROM hold AS h
    LEFT JOIN shardwheel.task_types AS t ON t.tenant_id = h.tenant_id AND t.task = h.held_for
    LEFT JOIN shardwheel.task_budgets AS u ON u.tenant_id = h.tenant_id AND u.task = h.held_for
    LEFT JOIN shardwheel.task_breakers AS b ON b.tenant_id = h.tenant_id AND b.task = h.held_for
),
free AS MATERIALIZED (
  SELECT o.execution_id
    FROM release AS r
   CROSS JOIN LATERAL (
     SELECT x.execution_id
       FROM shardwheel.executions AS x
      WHERE x.pending = 'held' AND x.reason = r.reason AND x.tenant_id = r.tenant_id AND x.held_for = r.held_for
        AND x.partition = ANY (%(partitions)s)
        AND (r.reason <> 'handler_unknown'
             OR (SELECT bool_and(j.task = ANY (w.tasks)) FROM shardwheel.jobs AS j JOIN shardwheel.workers AS w ON w.pool = j.pool
                  WHERE j.job_id = x.job_id AND w.seen_at > clock_timestamp() - %(silence)s))
      ORDER BY x.execution_id
      LIMIT least(r.room, %(most)s)
        FOR UPDATE OF x SKIP LOCKED) AS o
),
released AS (
  UPDATE shardwheel.executions AS x
     SET state = 'queued', reason = NULL
    FROM free AS f
   WHERE x.execution_id = f.execution_id AND x.pending = 'held'
)
SELECT DISTINCT ON (h.reason) h.reason, h.tenant_id, h.held_for
  FROM (SELECT hold.*, count(*) OVER (PARTITION BY reason) AS looked_at FROM hold) AS h
 WHERE h.looked_at = %(page)s
 ORDER BY h.reason, h.tenant_id DESC, h.held_for DESC
