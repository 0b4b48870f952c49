-- A page of a tenant's executions, the latest scheduled time first (an id begins with it). A job may be gone
-- before its executions.
SELECT uuid_send(x.execution_id), uuid_send(x.job_id), coalesce(j.task, ''), x.state, x.reason, x.origin, shardwheel.ms(x.scheduled_at),
       shardwheel.ms(x.due_at), x.attempt, x.failures, x.crashes, x.worker, shardwheel.ms(x.started_at), shardwheel.ms(x.ended_at),
       x.duration_ms, shardwheel.ms(x.cancel_requested_at), x.progress, x.output, uuid_send(x.dag_run_id)
  FROM shardwheel.executions AS x
  LEFT JOIN shardwheel.jobs AS j USING (job_id)
 WHERE x.tenant_id = %(tenant_id)s AND x.execution_id >= %(first_id)s AND x.execution_id < %(before_id)s
   AND (%(state)s::text IS NULL OR x.state = %(state)s)
   AND (%(reason)s::text IS NULL OR x.reason = %(reason)s)
   AND (%(origin)s::text IS NULL OR x.origin = %(origin)s)
   AND (%(job_id)s::uuid IS NULL OR x.job_id = %(job_id)s)
   AND (%(task)s::text IS NULL OR j.task = %(task)s)
   AND (%(tag)s::text IS NULL OR %(tag)s = ANY (j.tags))
   AND (%(text)s::text IS NULL OR strpos(lower(j.name), lower(%(text)s)) > 0 OR strpos(lower(j.task), lower(%(text)s)) > 0)
 ORDER BY x.execution_id DESC
 LIMIT %(limit)s
