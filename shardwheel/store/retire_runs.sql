-- Runs of DAGs that are over, whole, so many tasks at a time: from then on nothing of them can go on, and their executions
-- follow (`old_executions.sql`). One that failed stays as long as a dead letter of it may be redriven.
WITH oldest AS MATERIALIZED (
  SELECT r.dag_run_id, row_number() OVER w AS place, sum(1 + r.succeeded + r.failed + r.skipped) OVER w AS so_far
    FROM (SELECT * FROM shardwheel.dag_runs
           WHERE ended_at < now() - CASE WHEN state = 'succeeded' THEN %(succeeded)s ELSE greatest(%(failed)s, %(dead_letters)s) END
             AND ended_at < now() - least(%(succeeded)s, %(failed)s)
           ORDER BY ended_at LIMIT %(most)s) AS r
  WINDOW w AS (ORDER BY r.ended_at, r.dag_run_id)
),
locked AS MATERIALIZED (
  SELECT r.dag_run_id
    FROM shardwheel.dag_runs AS r
   WHERE r.dag_run_id IN (SELECT dag_run_id FROM oldest WHERE place = 1 OR so_far <= %(most)s) AND r.ended_at IS NOT NULL
   ORDER BY r.dag_run_id
     FOR UPDATE OF r SKIP LOCKED
),
counters AS (
  DELETE FROM shardwheel.dag_counters AS c USING locked AS l WHERE c.dag_run_id = l.dag_run_id
),
fans AS (
  DELETE FROM shardwheel.dag_fans AS f USING locked AS l WHERE f.dag_run_id = l.dag_run_id
)
DELETE FROM shardwheel.dag_runs AS r USING locked AS l WHERE r.dag_run_id = l.dag_run_id
