-- Counters as they were counted anew, from how all tasks of a locked run stand.
INSERT INTO shardwheel.dag_counters AS c (dag_run_id, child_id, tenant_id, partition, pending, failed, skipped)
SELECT r.dag_run_id, n.child_id, r.tenant_id, r.partition, n.pending, n.failed, n.skipped
  FROM shardwheel.dag_runs AS r
 CROSS JOIN unnest(%(child_ids)s::uuid[], %(pending)s::bigint[], %(failed)s::bigint[], %(skipped)s::bigint[])
    AS n (child_id, pending, failed, skipped)
 WHERE r.dag_run_id = %(run_id)s
 ORDER BY n.child_id
ON CONFLICT (dag_run_id, child_id) DO UPDATE SET pending = excluded.pending, failed = excluded.failed, skipped = excluded.skipped
