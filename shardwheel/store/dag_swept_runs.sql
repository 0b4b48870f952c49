-- Runs of which a task was lost by its worker, or can't run any more (the claim held it with the reason).
SELECT uuid_send(x.dag_run_id)
  FROM shardwheel.executions AS x
 WHERE x.execution_id = ANY (ARRAY(SELECT c.execution_id FROM shardwheel.claimed_ids AS c WHERE c.partition = ANY (%(partitions)s)))
   AND x.state = 'running' AND x.dag_run_id IS NOT NULL
   AND (x.lease_until < clock_timestamp() OR x.timeout_at + %(grace)s < clock_timestamp())
 UNION
SELECT uuid_send(d.dag_run_id)
  FROM (SELECT x.dag_run_id
          FROM shardwheel.executions AS x
         WHERE x.pending = 'held' AND x.reason IN ('deleted', 'expired') AND x.partition = ANY (%(partitions)s)
           AND x.dag_run_id IS NOT NULL
         LIMIT %(most)s) AS d
 LIMIT %(most)s
