-- Tasks that are over take their children's counters down: n at once for a child of several of them, and by n from the
-- first time on. Those that are ready now. Their run is locked: nobody else counts meanwhile.
WITH over AS MATERIALIZED (
  SELECT *
    FROM unnest(%(run_ids)s::uuid[], %(dag_ids)s::uuid[], %(versions)s::bigint[], %(task_ids)s::uuid[], %(failed)s::boolean[],
                %(skipped)s::boolean[])
      AS o (run_id, dag_id, version, task_id, failed, skipped)
),
told AS MATERIALIZED (
  SELECT o.run_id, o.dag_id, o.version, e.child_id, count(*) AS n, count(*) FILTER (WHERE o.failed) AS failed,
         count(*) FILTER (WHERE o.skipped) AS skipped
    FROM over AS o
    JOIN shardwheel.dag_edges AS e ON e.dag_id = o.dag_id AND e.version = o.version AND e.parent_id = o.task_id
   GROUP BY o.run_id, o.dag_id, o.version, e.child_id
),
counted AS (
  UPDATE shardwheel.dag_counters AS c
     SET pending = c.pending - t.n, failed = c.failed + t.failed, skipped = c.skipped + t.skipped
    FROM told AS t
   WHERE c.dag_run_id = t.run_id AND c.child_id = t.child_id
  RETURNING c.dag_run_id, c.child_id, c.pending, c.failed, c.skipped
),
made AS (
  INSERT INTO shardwheel.dag_counters AS c (dag_run_id, child_id, tenant_id, partition, pending, failed, skipped)
  SELECT t.run_id, t.child_id, k.tenant_id, k.partition, k.in_degree - t.n, t.failed, t.skipped
    FROM told AS t
    JOIN shardwheel.dag_tasks AS k ON k.dag_id = t.dag_id AND k.version = t.version AND k.task_id = t.child_id
   WHERE NOT EXISTS (SELECT FROM shardwheel.dag_counters AS c WHERE c.dag_run_id = t.run_id AND c.child_id = t.child_id)
   ORDER BY t.run_id, t.child_id
  RETURNING c.dag_run_id, c.child_id, c.pending, c.failed, c.skipped
)
SELECT uuid_send(w.dag_run_id), uuid_send(w.child_id), k.fan_out, w.pending, w.failed, w.skipped
  FROM (SELECT * FROM counted UNION ALL SELECT * FROM made) AS w
  JOIN told AS t ON t.run_id = w.dag_run_id AND t.child_id = w.child_id
  JOIN shardwheel.dag_tasks AS k ON k.dag_id = t.dag_id AND k.version = t.version AND k.task_id = w.child_id
 WHERE w.pending = 0
