-- A run that goes nowhere: what waits or is held of it is over. Which those are. Locked in key order, as claims do; what runs
-- too, and until it has been asked to stop: whoever puts DAG work off does not lock the run, so it could else wait for its next
-- attempt, and have begun that one, between two statements.
WITH under_way AS MATERIALIZED (
  SELECT x.execution_id, x.pending IS NOT NULL AS waits
    FROM shardwheel.executions AS x
   WHERE x.dag_run_id = %(run_id)s AND (%(task_id)s::uuid IS NULL OR x.job_id = %(task_id)s)
     AND (x.pending IS NOT NULL OR x.state = 'running' AND x.lease_until IS NOT NULL)
   ORDER BY x.execution_id
     FOR UPDATE OF x
)
UPDATE shardwheel.executions AS x
   SET state = %(state)s, reason = %(reason)s, ended_at = clock_timestamp()
  FROM under_way AS u
 WHERE u.waits AND x.execution_id = u.execution_id
RETURNING uuid_send(x.dag_run_id), uuid_send(x.job_id), x.item_no, x.state, x.reason
