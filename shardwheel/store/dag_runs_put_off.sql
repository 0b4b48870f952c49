-- Runs that have not been told of tasks that are over: those of the next rows after a run, in key order.
SELECT DISTINCT uuid_send(p.dag_run_id)
  FROM (SELECT dag_run_id FROM shardwheel.dag_put_off WHERE dag_run_id > %(after)s ORDER BY dag_run_id LIMIT %(most)s) AS p
 ORDER BY 1
