-- A task that runs once per item begins.
INSERT INTO shardwheel.dag_fans AS f (dag_run_id, task_id, tenant_id, partition, items, open_items)
SELECT r.dag_run_id, %(task_id)s, r.tenant_id, r.partition, %(items)s, %(items)s
  FROM shardwheel.dag_runs AS r
 WHERE r.dag_run_id = %(run_id)s
ON CONFLICT (dag_run_id, task_id) DO UPDATE SET items = excluded.items, open_items = excluded.open_items, failed_items = 0,
       skipped_items = 0
