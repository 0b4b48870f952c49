-- A page of a tenant's DAGs with their latest versions, in the order of their ids (which is that of their creation).
SELECT uuid_send(j.job_id), j.tenant_id, j.partition, j.kind, j.state, j.task, j.name, j.params, j.tags, j.schedule,
       shardwheel.ms(j.anchor_at), shardwheel.ms(j.start_at), shardwheel.ms(j.end_at), shardwheel.ms(j.last_at), j.max_runs, j.jitter_ms,
       j.pool, j.priority, j.timeout_ms, j.max_retries, j.backoff, j.misfire, j.misfire_grace_ms, j.catchup_window_ms, j.overlap,
       j.not_after_ms, j.version, j.schedule_no, j.schedule_xid::text::bigint, shardwheel.ms(j.effective_from), shardwheel.ms(j.created_at),
       v.version, v.policy, v.sla_ms, v.definition - 'tasks', jsonb_array_length(v.definition -> 'tasks')
  FROM shardwheel.jobs AS j
 CROSS JOIN LATERAL (
   SELECT d.version, d.policy, d.sla_ms, d.definition FROM shardwheel.dag_versions AS d
    WHERE d.dag_id = j.job_id ORDER BY d.version DESC LIMIT 1) AS v
 WHERE j.tenant_id = %(tenant_id)s AND j.kind = 'dag' AND j.job_id > %(after)s::uuid
   AND (%(state)s::text IS NULL AND j.state <> 'deleted' OR j.state = %(state)s)
   AND (%(tag)s::text IS NULL OR %(tag)s = ANY (j.tags))
   AND (%(text)s::text IS NULL OR strpos(lower(j.name), lower(%(text)s)) > 0)
   AND (%(task)s::text IS NULL OR v.definition -> 'tasks' @> jsonb_build_array(jsonb_build_object('task', %(task)s::text)))
   AND (%(from_ms)s::bigint IS NULL OR j.created_at >= shardwheel.at(%(from_ms)s))
   AND (%(until_ms)s::bigint IS NULL OR j.created_at < shardwheel.at(%(until_ms)s))
 ORDER BY j.job_id
 LIMIT %(limit)s
