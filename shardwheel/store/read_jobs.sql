-- Some jobs as they stand, and the time by the one clock.
SELECT uuid_send(job_id), tenant_id, partition, kind, state, task, name, params, tags, schedule, shardwheel.ms(anchor_at), shardwheel.ms(start_at),
       shardwheel.ms(end_at), shardwheel.ms(last_at), max_runs, jitter_ms, pool, priority, timeout_ms, max_retries, backoff, misfire,
       misfire_grace_ms, catchup_window_ms, overlap, not_after_ms, version, schedule_no, schedule_xid::text::bigint,
       shardwheel.ms(effective_from), shardwheel.ms(created_at), callback_url, uuid_send(dag_id),
       CASE WHEN kind = 'task' THEN shardwheel.parents_of(dag_id, job_id) ELSE '{}' END, shardwheel.now_ms()
  FROM shardwheel.jobs
 WHERE job_id = ANY (%(job_ids)s) AND tenant_id = %(tenant_id)s
