-- Held rows whose reason no longer holds go on, oldest first; those of deleted jobs are over.
WITH free AS MATERIALIZED (
  SELECT x.execution_id, j.state AS job_state
    FROM shardwheel.executions AS x
    JOIN shardwheel.jobs AS j USING (job_id)
   WHERE x.partition = ANY (%(partitions)s) AND x.pending = 'held'
     AND (j.state = 'deleted' OR x.reason = 'handler_unknown' OR x.reason = 'paused' AND j.state <> 'paused')
   ORDER BY x.execution_id
   LIMIT %(most)s
     FOR UPDATE OF x SKIP LOCKED
)
UPDATE shardwheel.executions AS x
   SET state = CASE WHEN f.job_state = 'deleted' THEN 'skipped' ELSE 'queued' END,
       reason = CASE WHEN f.job_state = 'deleted' THEN 'deleted' END,
       ended_at = CASE WHEN f.job_state = 'deleted' THEN clock_timestamp() END
  FROM free AS f
 WHERE x.execution_id = f.execution_id AND x.pending = 'held'
