-- What a deleted DAG's tasks, or those of a job that had children, wait for no longer matters: held as deleted, they are ended
-- by the sweep, which locks their runs first. (Of one deleted child: its own.) Of very many the first; the sweep goes on with it.
WITH held AS MATERIALIZED (
  SELECT x.execution_id
    FROM shardwheel.jobs AS j
    JOIN shardwheel.dag_runs AS r ON r.dag_id = coalesce(j.dag_id, j.job_id) AND r.state = 'running'
    JOIN shardwheel.executions AS x ON x.dag_run_id = r.dag_run_id AND x.pending = 'held' AND x.reason <> 'deleted'
   WHERE j.job_id = %(job_id)s AND (r.dag_id = j.job_id OR x.job_id = j.job_id)
   ORDER BY x.execution_id
   LIMIT %(most)s
     FOR UPDATE OF x SKIP LOCKED
)
UPDATE shardwheel.executions AS x SET reason = 'deleted' FROM held AS h WHERE x.execution_id = h.execution_id
