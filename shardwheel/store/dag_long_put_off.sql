-- Runs of some partitions that should have been told of tasks that are over long ago.
SELECT DISTINCT uuid_send(p.dag_run_id)
  FROM (SELECT dag_run_id FROM shardwheel.dag_put_off
         WHERE partition = ANY (%(partitions)s) AND put_off_at < clock_timestamp() - %(age)s
         LIMIT %(most)s) AS p
 ORDER BY 1
