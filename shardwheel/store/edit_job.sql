-- Write an edited job. Whether this is a new state of the schedule is the trigger's to see.
UPDATE shardwheel.jobs AS j
   SET task = n.task, name = n.name, params = n.params, tags = ARRAY(SELECT jsonb_array_elements_text(n.tags)), schedule = n.schedule,
       anchor_at = shardwheel.at(n.anchor_ms), start_at = shardwheel.at(n.start_ms), end_at = shardwheel.at(n.end_ms),
       last_at = shardwheel.at(n.last_ms), max_runs = n.max_runs, jitter_ms = n.jitter_ms, pool = n.pool, priority = n.priority,
       timeout_ms = n.timeout_ms, max_retries = n.max_retries, backoff = n.backoff, misfire = n.misfire,
       misfire_grace_ms = n.misfire_grace_ms, catchup_window_ms = n.catchup_window_ms, overlap = n.overlap, not_after_ms = n.not_after_ms,
       callback_url = n.callback_url
  FROM jsonb_to_record(%(job)s::jsonb)
    AS n (task text, name text, params jsonb, tags jsonb, schedule text, anchor_ms bigint, start_ms bigint, end_ms bigint, last_ms bigint,
          max_runs integer, jitter_ms integer, pool text, priority smallint, timeout_ms bigint, max_retries integer, backoff jsonb,
          misfire text, misfire_grace_ms bigint, catchup_window_ms bigint, overlap text, not_after_ms bigint, callback_url text)
 WHERE j.job_id = %(job_id)s
RETURNING shardwheel.ms(j.effective_from), j.schedule_no
