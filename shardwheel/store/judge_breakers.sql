-- Open what fails too often, and return it; and of what is on probation, close or open again by what was just told.
WITH told AS MATERIALIZED (
  SELECT * FROM unnest(%(tenants)s::text[], %(tasks)s::text[], %(runs)s::bigint[], %(failures)s::bigint[]) AS c (tenant_id, task, runs, failures)
),
counted AS MATERIALIZED (
  SELECT c.tenant_id, c.task, sum(t.runs) AS runs, sum(t.failures) AS failures
    FROM told AS c
    JOIN shardwheel.task_tallies AS t ON t.tenant_id = c.tenant_id AND t.task = c.task AND t.since > clock_timestamp() - %(window)s
    LEFT JOIN shardwheel.task_breakers AS b ON b.tenant_id = c.tenant_id AND b.task = c.task
    LEFT JOIN shardwheel.task_types AS y ON y.tenant_id = c.tenant_id AND y.task = c.task
   WHERE coalesce(t.since > b.closed_at, true) AND coalesce(y.breaker, true) AND b.open_until IS NULL
   GROUP BY c.tenant_id, c.task
),
opened AS (
  INSERT INTO shardwheel.task_breakers AS b (tenant_id, task, open_until)
  SELECT tenant_id, task, clock_timestamp() + %(open_for)s
    FROM counted
   WHERE runs >= %(least_runs)s AND failures >= runs * %(share)s
   ORDER BY tenant_id, task
  ON CONFLICT (tenant_id, task) DO UPDATE SET open_until = excluded.open_until, opened_at = clock_timestamp()
   WHERE b.open_until IS NULL
  RETURNING b.tenant_id, b.task
),
probe AS (
  INSERT INTO shardwheel.task_slots (tenant_id, task, slot_no) SELECT tenant_id, task, 0 FROM opened
  ON CONFLICT DO NOTHING
),
judged AS (
  UPDATE shardwheel.task_breakers AS b
     SET open_until = CASE WHEN c.failures > 0 THEN clock_timestamp() + %(open_for)s END,
         closed_at = CASE WHEN c.failures > 0 THEN b.closed_at ELSE clock_timestamp() END
    FROM told AS c
   WHERE b.tenant_id = c.tenant_id AND b.task = c.task AND b.open_until <= clock_timestamp() AND c.runs > 0
)
SELECT tenant_id, task FROM opened
