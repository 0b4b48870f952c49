-- A run as it stands. One that was asked for and has not begun is a waiting execution of the DAG, or whatever became of that.
SELECT uuid_send(dag_run_id), uuid_send(dag_id), version, state, reason, origin, shardwheel.ms(scheduled_at), shardwheel.ms(started_at),
       shardwheel.ms(ended_at), shardwheel.ms(sla_at), unfinished, succeeded, failed, skipped, rounds, params
  FROM shardwheel.dag_runs
 WHERE dag_run_id = %(dag_run_id)s AND tenant_id = %(tenant_id)s
UNION ALL
SELECT uuid_send(x.execution_id), uuid_send(x.job_id), NULL, x.state, x.reason, x.origin, shardwheel.ms(x.scheduled_at), shardwheel.ms(x.started_at),
       shardwheel.ms(x.ended_at), NULL, NULL, 0, 0, 0, 0, x.params
  FROM shardwheel.executions AS x
  JOIN shardwheel.jobs AS j USING (job_id)
 WHERE x.execution_id = %(dag_run_id)s AND x.tenant_id = %(tenant_id)s AND j.kind = 'dag'
   AND NOT EXISTS (SELECT FROM shardwheel.dag_runs AS r WHERE r.dag_run_id = x.execution_id)
