-- A job was given another task: what the old one held of it goes on, and the claim asks the new one.
WITH free AS MATERIALIZED (
  SELECT x.execution_id
    FROM shardwheel.executions AS x
   WHERE x.job_id = %(job_id)s AND x.pending = 'held' AND x.held_for = %(task)s
   ORDER BY x.execution_id
   LIMIT %(most)s
     FOR UPDATE OF x SKIP LOCKED
)
UPDATE shardwheel.executions AS x
   SET state = 'queued', reason = NULL
  FROM free AS f
 WHERE x.execution_id = f.execution_id AND x.pending = 'held'
