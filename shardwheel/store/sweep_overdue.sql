-- Waiting executions long overdue: touched, so that the feed hands them to the owner's wheel once more.
WITH overdue AS MATERIALIZED (
  SELECT x.execution_id
    FROM shardwheel.executions AS x
   WHERE x.partition = ANY (%(partitions)s) AND x.pending IN ('queued', 'retry_wait') AND x.due_at < clock_timestamp() - %(overdue)s
   ORDER BY x.execution_id
   LIMIT %(most)s
     FOR UPDATE OF x SKIP LOCKED
)
UPDATE shardwheel.executions AS x
   SET due_at = x.due_at
  FROM overdue AS o
 WHERE x.execution_id = o.execution_id AND x.state IN ('queued', 'retry_wait')
