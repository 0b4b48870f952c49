-- A run that had ended goes on: so does the DAG's own execution.
UPDATE shardwheel.executions AS x
   SET state = 'running', reason = NULL, ended_at = NULL
 WHERE x.execution_id = %(run_id)s AND x.state IN ('succeeded', 'dead', 'cancelled')
