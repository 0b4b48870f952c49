-- Remove executions that are over, with their attempts and logs, and note how far. One that somebody holds, or that waits
-- again since it was looked at (a backfill), is left alone.
WITH locked AS MATERIALIZED (
  SELECT x.execution_id
    FROM shardwheel.executions AS x
   WHERE x.execution_id = ANY (%(execution_ids)s::uuid[]) AND x.execution_id BETWEEN %(first_id)s AND %(last_id)s
     AND x.state IN ('succeeded', 'skipped', 'dead', 'cancelled', 'force_completed')
   ORDER BY x.execution_id
     FOR UPDATE OF x SKIP LOCKED
),
gone AS (
  DELETE FROM shardwheel.executions AS x
   USING locked AS l
   WHERE x.execution_id = l.execution_id AND x.execution_id BETWEEN %(first_id)s AND %(last_id)s
  RETURNING x.execution_id
),
attempts AS (
  DELETE FROM shardwheel.attempts AS a
   USING gone AS g
   WHERE a.execution_id = g.execution_id AND a.execution_id BETWEEN %(first_id)s AND %(last_id)s
),
logs AS (
  DELETE FROM shardwheel.execution_logs AS o
   USING gone AS g
   WHERE o.execution_id = g.execution_id AND o.execution_id BETWEEN %(first_id)s AND %(last_id)s
),
noted AS (
  UPDATE shardwheel.retention
     SET gone_through_ms = greatest(gone_through_ms, %(through_ms)s)
   WHERE EXISTS (SELECT FROM gone)
)
SELECT count(*) FROM gone
