-- As many slots as may run at once, and a budget where there is a rate. What is in use stays until it is free.
WITH type AS MATERIALIZED (
  SELECT t.tenant_id, t.task, t.max_running, t.rate_per_s, t.breaker FROM shardwheel.task_types AS t
   WHERE t.tenant_id = %(tenant_id)s AND t.task = %(task)s
),
added AS (
  INSERT INTO shardwheel.task_slots (tenant_id, task, slot_no)
  SELECT t.tenant_id, t.task, n FROM type AS t CROSS JOIN LATERAL generate_series(1, t.max_running) AS n
  ON CONFLICT DO NOTHING
),
removed AS (
  DELETE FROM shardwheel.task_slots AS s USING type AS t
   WHERE s.tenant_id = t.tenant_id AND s.task = t.task AND s.slot_no > coalesce(t.max_running, 0) AND s.execution_id IS NULL
),
closed AS (
  UPDATE shardwheel.task_breakers AS b SET open_until = NULL, closed_at = clock_timestamp()
    FROM type AS t
   WHERE b.tenant_id = t.tenant_id AND b.task = t.task AND NOT t.breaker AND b.open_until IS NOT NULL
),
spent AS (
  DELETE FROM shardwheel.task_budgets AS b USING type AS t
   WHERE b.tenant_id = t.tenant_id AND b.task = t.task AND t.rate_per_s IS NULL
)
INSERT INTO shardwheel.task_budgets (tenant_id, task, tokens)
SELECT t.tenant_id, t.task, 0 FROM type AS t WHERE t.rate_per_s IS NOT NULL
ON CONFLICT DO NOTHING
