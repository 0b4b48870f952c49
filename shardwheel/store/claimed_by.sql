-- What a claim got whose reply was lost: found by its token.
SELECT 'running', NULL, uuid_send(x.execution_id), uuid_send(x.job_id), x.partition, x.tenant_id, j.task,
       convert_to(coalesce(x.params, j.params)::text, 'UTF8'), shardwheel.ms(x.scheduled_at), x.attempt, x.failures, j.timeout_ms,
       shardwheel.ms(x.due_at), coalesce(x.trace, ''), coalesce(uuid_send(x.dag_run_id), ''::bytea), false, false
  FROM shardwheel.executions AS x
  JOIN shardwheel.jobs AS j USING (job_id)
 WHERE x.execution_id = ANY (%(execution_ids)s::uuid[]) AND x.claim_token = %(token)s::uuid AND x.state = 'running'
