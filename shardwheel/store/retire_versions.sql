-- Versions of DAGs, and of jobs with children, that nobody needs any more: no run has them, and there is a later one, or the DAG
-- is gone. (A run begins with the latest one.) So many tasks at a time; a task that is in no other version is deleted with them.
WITH oldest AS MATERIALIZED (
  SELECT v.dag_id, v.version, row_number() OVER w AS place, sum(coalesce(v.tasks, 1)) OVER w AS so_far
    FROM (SELECT v.dag_id, v.version, v.tasks, v.created_at
            FROM shardwheel.dag_versions AS v
           WHERE v.created_at < now() - %(deleted_jobs)s
             AND (EXISTS (SELECT FROM shardwheel.dag_versions AS n WHERE n.dag_id = v.dag_id AND n.version > v.version)
                  OR NOT EXISTS (SELECT FROM shardwheel.jobs AS j WHERE j.job_id = v.dag_id))
             AND NOT EXISTS (SELECT FROM shardwheel.dag_runs AS r WHERE r.dag_id = v.dag_id AND r.version = v.version)
           ORDER BY v.created_at, v.dag_id, v.version LIMIT %(most)s) AS v
  WINDOW w AS (ORDER BY v.created_at, v.dag_id, v.version)
),
old AS MATERIALIZED (
  SELECT v.dag_id, v.version
    FROM shardwheel.dag_versions AS v
   WHERE (v.dag_id, v.version) IN (SELECT dag_id, version FROM oldest WHERE place = 1 OR so_far <= %(most)s)
     FOR UPDATE OF v SKIP LOCKED
),
edges AS (
  DELETE FROM shardwheel.dag_edges AS e USING old AS o WHERE e.dag_id = o.dag_id AND e.version = o.version
),
tasks AS (
  DELETE FROM shardwheel.dag_tasks AS t USING old AS o WHERE t.dag_id = o.dag_id AND t.version = o.version
  RETURNING t.dag_id, t.task_id
),
left_over AS MATERIALIZED (
  SELECT j.job_id
    FROM shardwheel.jobs AS j
   WHERE j.job_id IN (
     SELECT t.task_id FROM tasks AS t
      WHERE NOT EXISTS (SELECT FROM shardwheel.dag_tasks AS k
                         WHERE k.dag_id = t.dag_id AND k.task_id = t.task_id AND (k.dag_id, k.version) NOT IN (SELECT dag_id, version FROM old)))
     AND j.kind = 'task' AND j.state <> 'deleted'
   ORDER BY j.job_id
     FOR UPDATE OF j
),
deleted AS (
  UPDATE shardwheel.jobs AS j SET state = 'deleted' FROM left_over AS l WHERE j.job_id = l.job_id
)
DELETE FROM shardwheel.dag_versions AS v USING old AS o WHERE v.dag_id = o.dag_id AND v.version = o.version
