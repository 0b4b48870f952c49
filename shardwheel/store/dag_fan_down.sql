-- Items that are over take their fan-outs down, each by how many of its items they are. Those of which none is open.
UPDATE shardwheel.dag_fans AS f
   SET open_items = f.open_items - t.n, failed_items = f.failed_items + t.failed, skipped_items = f.skipped_items + t.skipped
  FROM (SELECT i.run_id, i.task_id, count(*) AS n, count(*) FILTER (WHERE i.failed) AS failed,
               count(*) FILTER (WHERE i.skipped) AS skipped
          FROM unnest(%(run_ids)s::uuid[], %(task_ids)s::uuid[], %(failed)s::boolean[], %(skipped)s::boolean[])
            AS i (run_id, task_id, failed, skipped)
         GROUP BY i.run_id, i.task_id) AS t
 WHERE f.dag_run_id = t.run_id AND f.task_id = t.task_id
RETURNING uuid_send(f.dag_run_id), uuid_send(f.task_id), f.open_items, f.failed_items, f.skipped_items
