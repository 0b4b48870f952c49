-- Runs that are not over although nothing of them waits, is held, runs, or is still to be told to them: something was
-- missed. A page after the last one looked at, with how far it came.
WITH page AS MATERIALIZED (
  SELECT r.dag_run_id
    FROM shardwheel.dag_runs AS r
   WHERE r.partition = ANY (%(partitions)s) AND r.state = 'running' AND r.dag_run_id > %(after)s
   ORDER BY r.dag_run_id
   LIMIT %(page)s
)
SELECT uuid_send(p.dag_run_id),
       NOT EXISTS (SELECT FROM shardwheel.executions AS x
                    WHERE x.dag_run_id = p.dag_run_id AND (x.pending IS NOT NULL OR x.state = 'running' AND x.lease_until IS NOT NULL))
       AND NOT EXISTS (SELECT FROM shardwheel.dag_put_off AS o WHERE o.dag_run_id = p.dag_run_id)
  FROM page AS p
 ORDER BY p.dag_run_id
