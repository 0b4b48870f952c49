-- A page of a tenant's jobs (not its DAGs, nor their tasks; jobs with parents are), in the order of their ids (which is that of their creation).
SELECT uuid_send(job_id), tenant_id, partition, kind, state, task, name, params, tags, schedule, shardwheel.ms(anchor_at), shardwheel.ms(start_at),
       shardwheel.ms(end_at), shardwheel.ms(last_at), max_runs, jitter_ms, pool, priority, timeout_ms, max_retries, backoff, misfire,
       misfire_grace_ms, catchup_window_ms, overlap, not_after_ms, version, schedule_no, schedule_xid::text::bigint,
       shardwheel.ms(effective_from), shardwheel.ms(created_at), callback_url, uuid_send(dag_id),
       CASE WHEN kind = 'task' THEN shardwheel.parents_of(dag_id, job_id) ELSE '{}' END
  FROM shardwheel.jobs AS j
 WHERE tenant_id = %(tenant_id)s AND job_id > %(after)s::uuid
   AND (kind = 'job' OR kind = 'task' AND EXISTS (SELECT FROM shardwheel.jobs AS r WHERE r.job_id = j.dag_id AND r.kind = 'job'))
   AND (%(parent)s::uuid IS NULL OR j.job_id = ANY (ARRAY(SELECT shardwheel.children_of(%(parent)s, %(tenant_id)s))))
   AND (%(state)s::text IS NULL AND state <> 'deleted' OR state = %(state)s)
   AND (%(task)s::text IS NULL OR task = %(task)s)
   AND (%(tag)s::text IS NULL OR %(tag)s = ANY (tags))
   AND (%(text)s::text IS NULL OR strpos(lower(name), lower(%(text)s)) > 0 OR strpos(lower(task), lower(%(text)s)) > 0)
   AND (%(from_ms)s::bigint IS NULL OR created_at >= shardwheel.at(%(from_ms)s))
   AND (%(until_ms)s::bigint IS NULL OR created_at < shardwheel.at(%(until_ms)s))
 ORDER BY job_id
 LIMIT %(limit)s
