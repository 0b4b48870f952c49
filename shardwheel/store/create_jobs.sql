-- New jobs, all or none. What names the schedule's state (schedule_no, effective_from, …) is the trigger's.
INSERT INTO shardwheel.jobs
       (job_id, tenant_id, partition, task, name, params, tags, schedule, anchor_at, start_at, end_at, last_at, max_runs, jitter_ms,
        pool, priority, timeout_ms, max_retries, backoff, misfire, misfire_grace_ms, catchup_window_ms, overlap, not_after_ms,
        callback_url)
SELECT job_id, %(tenant_id)s, partition, task, name, params, ARRAY(SELECT jsonb_array_elements_text(tags)), schedule,
       shardwheel.at(anchor_ms), shardwheel.at(start_ms), shardwheel.at(end_ms), shardwheel.at(last_ms), max_runs, jitter_ms,
       pool, priority, timeout_ms, max_retries, backoff, misfire, misfire_grace_ms, catchup_window_ms, overlap, not_after_ms,
       callback_url
  FROM jsonb_to_recordset(%(jobs)s::jsonb)
    AS j (job_id uuid, partition smallint, task text, name text, params jsonb, tags jsonb, schedule text, anchor_ms bigint, start_ms bigint,
          end_ms bigint, last_ms bigint, max_runs integer, jitter_ms integer, pool text, priority smallint, timeout_ms bigint,
          max_retries integer, backoff jsonb, misfire text, misfire_grace_ms bigint, catchup_window_ms bigint, overlap text, not_after_ms bigint,
          callback_url text)
RETURNING uuid_send(job_id), shardwheel.ms(effective_from)
