-- What of a deleted job was held is over. Of very much the first; the sweep goes on with it.
WITH held AS MATERIALIZED (
  SELECT x.execution_id
    FROM shardwheel.executions AS x
   WHERE x.job_id = %(job_id)s AND x.pending = 'held' AND x.dag_run_id IS NULL
   ORDER BY x.execution_id
   LIMIT %(most)s
     FOR UPDATE OF x SKIP LOCKED
)
UPDATE shardwheel.executions AS x
   SET state = 'skipped', reason = 'deleted', ended_at = clock_timestamp()
  FROM held AS h
 WHERE x.execution_id = h.execution_id AND x.pending = 'held'
