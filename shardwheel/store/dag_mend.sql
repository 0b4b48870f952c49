-- A person says how a task of a run ended, whatever it did: its worker, if it has one, finds that it has lost it. What it
-- ended as before, and its run was not told of, is no longer to be told.
WITH told AS (
  DELETE FROM shardwheel.dag_put_off WHERE dag_run_id = %(run_id)s AND task_id = %(task_id)s AND item_no = -1
)
INSERT INTO shardwheel.executions AS x
       (execution_id, tenant_id, partition, job_id, kind, origin, state, reason, scheduled_at, due_at, dag_run_id, output, ended_at)
SELECT %(execution_id)s, r.tenant_id, r.partition, %(task_id)s, 4, 'dag', %(state)s, %(reason)s::text, r.scheduled_at,
       date_trunc('milliseconds', clock_timestamp()), r.dag_run_id, %(output)s::jsonb, clock_timestamp()
  FROM shardwheel.dag_runs AS r
 WHERE r.dag_run_id = %(run_id)s
ON CONFLICT (execution_id) DO UPDATE
   SET state = excluded.state, reason = excluded.reason, output = excluded.output, ended_at = excluded.ended_at, claim_token = NULL,
       lease_until = NULL, timeout_at = NULL, reported_generation = NULL, reported_partition = NULL, reported_offset = NULL
