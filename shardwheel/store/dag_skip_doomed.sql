-- What the claim found that can't run any more, of runs that are locked: it ends as skipped.
WITH doomed AS MATERIALIZED (
  SELECT x.execution_id
    FROM shardwheel.executions AS x
   WHERE x.dag_run_id = ANY (%(run_ids)s::uuid[]) AND x.pending = 'held' AND x.reason IN ('deleted', 'expired')
   ORDER BY x.execution_id
     FOR UPDATE OF x
)
UPDATE shardwheel.executions AS x
   SET state = 'skipped', ended_at = clock_timestamp()
  FROM doomed AS d
 WHERE x.execution_id = d.execution_id
RETURNING uuid_send(x.dag_run_id), uuid_send(x.job_id), x.item_no, x.state, x.reason
