-- Tasks that are over take their children's counters down: n at once for a child of several of them, and by n from the
-- first time on. Those that are ready now. Their run is locked: nobody else counts meanwhile.
-- A root may have ten thousand children, of which the planner knows nothing: so nothing here is joined but to a table by its
-- whole key, and at the end what is told and what was counted are brought together by grouping.
WITH over AS MATERIALIZED (
  SELECT *
    FROM unnest(%(run_ids)s::uuid[], %(dag_ids)s::uuid[], %(versions)s::bigint[], %(task_ids)s::uuid[], %(failed)s::boolean[],
                %(skipped)s::boolean[])
      AS o (run_id, dag_id, version, task_id, failed, skipped)
),
told AS MATERIALIZED (
  SELECT n.*, k.tenant_id, k.partition, k.in_degree, k.fan_out
    FROM (SELECT o.run_id, o.dag_id, o.version, e.child_id, count(*) AS n, count(*) FILTER (WHERE o.failed) AS failed,
                 count(*) FILTER (WHERE o.skipped) AS skipped
            FROM over AS o
            JOIN shardwheel.dag_edges AS e ON e.dag_id = o.dag_id AND e.version = o.version AND e.parent_id = o.task_id
           GROUP BY o.run_id, o.dag_id, o.version, e.child_id) AS n
   CROSS JOIN LATERAL (SELECT k.tenant_id, k.partition, k.in_degree, k.fan_out
                         FROM shardwheel.dag_tasks AS k
                        WHERE k.dag_id = n.dag_id AND k.version = n.version AND k.task_id = n.child_id
                       OFFSET 0) AS k
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
  SELECT t.run_id, t.child_id, t.tenant_id, t.partition, t.in_degree - t.n, t.failed, t.skipped
    FROM told AS t
   WHERE NOT EXISTS (SELECT FROM shardwheel.dag_counters AS c WHERE c.dag_run_id = t.run_id AND c.child_id = t.child_id)
   ORDER BY t.run_id, t.child_id
  RETURNING c.dag_run_id, c.child_id, c.pending, c.failed, c.skipped
)
SELECT uuid_send(w.dag_run_id), uuid_send(w.child_id), bool_or(w.fan_out), max(w.pending), max(w.failed), max(w.skipped)
  FROM (SELECT run_id AS dag_run_id, child_id, fan_out, NULL::integer AS pending, NULL::integer AS failed, NULL::integer AS skipped FROM told
         UNION ALL SELECT dag_run_id, child_id, NULL, pending, failed, skipped FROM counted
         UNION ALL SELECT dag_run_id, child_id, NULL, pending, failed, skipped FROM made) AS w
 GROUP BY w.dag_run_id, w.child_id
HAVING max(w.pending) = 0
