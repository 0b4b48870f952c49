-- Some executions, and the attempts of each as JSON, oldest first.
SELECT uuid_send(x.execution_id), uuid_send(x.job_id), coalesce(j.task, ''), x.state, x.reason, x.origin, shardwheel.ms(x.scheduled_at),
       shardwheel.ms(x.due_at), x.attempt, x.failures, x.crashes, x.worker, shardwheel.ms(x.started_at), shardwheel.ms(x.ended_at),
       x.duration_ms, shardwheel.ms(x.cancel_requested_at), x.progress, x.output, uuid_send(x.dag_run_id),
       (SELECT coalesce(jsonb_agg(to_jsonb(a) ORDER BY a.attempt), '[]') FROM shardwheel.attempts AS a WHERE a.execution_id = x.execution_id)
  FROM shardwheel.executions AS x
  LEFT JOIN shardwheel.jobs AS j USING (job_id)
 WHERE x.execution_id = ANY (%(execution_ids)s) AND x.tenant_id = %(tenant_id)s
