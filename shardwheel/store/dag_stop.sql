-- A run that goes nowhere: what waits or is held of it is over. Which those are. Locked in key order, as claims do.
WITH waiting AS MATERIALIZED (
  SELECT x.execution_id
    FROM shardwheel.executions AS x
   WHERE x.dag_run_id = %(run_id)s AND (%(task_id)s::uuid IS NULL OR x.job_id = %(task_id)s) AND x.pending IS NOT NULL
   ORDER BY x.execution_id
     FOR UPDATE OF x
)
UPDATE shardwheel.executions AS x
   SET state = %(state)s, reason = %(reason)s, ended_at = clock_timestamp()
  FROM waiting AS w
 WHERE x.execution_id = w.execution_id
RETURNING uuid_send(x.dag_run_id), uuid_send(x.job_id), x.item_no, x.state, x.reason
