-- What runs of a run learns at its next heartbeat that it should stop.
WITH running AS MATERIALIZED (
  SELECT x.execution_id
    FROM shardwheel.executions AS x
   WHERE x.dag_run_id = %(run_id)s AND (%(task_id)s::uuid IS NULL OR x.job_id = %(task_id)s) AND x.state = 'running' AND x.lease_until IS NOT NULL
   ORDER BY x.execution_id
     FOR UPDATE OF x
)
UPDATE shardwheel.executions AS x
   SET cancel_requested_at = coalesce(x.cancel_requested_at, clock_timestamp())
  FROM running AS r
 WHERE x.execution_id = r.execution_id
