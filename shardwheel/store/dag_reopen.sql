-- A run that had ended goes on: so does the DAG's own execution. (A job that is the root has ended by itself.)
UPDATE shardwheel.executions AS x
   SET state = 'running', reason = NULL, ended_at = NULL
 WHERE x.execution_id = %(run_id)s AND x.dag_run_id IS NULL AND x.state IN ('succeeded', 'dead', 'cancelled')
