-- The last time of a job that was enqueued a moment ago in this transaction.
SELECT uuid_send(job_id), tenant_id, partition, kind, state, task, name, params, tags, schedule, shardwheel.ms(anchor_at), shardwheel.ms(start_at),
       shardwheel.ms(end_at), shardwheel.ms(last_at), max_runs, jitter_ms, pool, priority, timeout_ms, max_retries, backoff, misfire,
       misfire_grace_ms, catchup_window_ms, overlap, not_after_ms, version, schedule_no, schedule_xid::text::bigint,
       shardwheel.ms(effective_from), shardwheel.ms(created_at), callback_url, uuid_send(dag_id), '{}'::bytea[], shardwheel.now_ms()
  FROM shardwheel.limit_enqueued(%(job_id)s, %(last_ms)s::bigint)
