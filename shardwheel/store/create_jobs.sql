-- New jobs, all or none: what is each one's own stands in columns, what several have in common comes once, as a
-- form. What names the schedule's state (schedule_no, effective_from, …) is the trigger's.
WITH forms AS MATERIALIZED (
  SELECT f.*, ARRAY(SELECT jsonb_array_elements_text(f.tags)) AS tag_list
    FROM ROWS FROM (jsonb_to_recordset(%(forms)s::jsonb)
      AS (task text, tags jsonb, schedule text, is_anchored boolean, is_once boolean, start_ms bigint, end_ms bigint, last_ms bigint,
          max_runs integer, jitter_ms integer, pool text, priority smallint, timeout_ms bigint, max_retries integer, backoff jsonb,
          misfire text, misfire_grace_ms bigint, catchup_window_ms bigint, overlap text, not_after_ms bigint, callback_url text))
    WITH ORDINALITY AS f (task, tags, schedule, is_anchored, is_once, start_ms, end_ms, last_ms, max_runs, jitter_ms, pool, priority,
          timeout_ms, max_retries, backoff, misfire, misfire_grace_ms, catchup_window_ms, overlap, not_after_ms, callback_url, number)
)
INSERT INTO shardwheel.jobs
       (job_id, tenant_id, partition, task, name, params, tags, schedule, anchor_at, start_at, end_at, last_at, max_runs, jitter_ms,
        pool, priority, timeout_ms, max_retries, backoff, misfire, misfire_grace_ms, catchup_window_ms, overlap, not_after_ms,
        callback_url)
SELECT j.job_id, %(tenant_id)s, j.partition, f.task, j.name, j.params::jsonb, f.tag_list, f.schedule,
       CASE WHEN f.is_anchored THEN shardwheel.at(j.anchor_ms) END, shardwheel.at(f.start_ms), shardwheel.at(f.end_ms),
       CASE WHEN f.is_once THEN shardwheel.at(j.anchor_ms) ELSE shardwheel.at(f.last_ms) END, f.max_runs, f.jitter_ms,
       f.pool, f.priority, f.timeout_ms, f.max_retries, f.backoff, f.misfire, f.misfire_grace_ms, f.catchup_window_ms, f.overlap,
       f.not_after_ms, f.callback_url
  FROM unnest(%(job_ids)s, %(partitions)s, %(numbers)s, %(anchors)s, %(names)s, %(params)s)
    AS j (job_id, partition, number, anchor_ms, name, params)
  JOIN forms AS f USING (number)
RETURNING uuid_send(job_id), version, schedule_no, schedule_xid::text::bigint, shardwheel.ms(effective_from), shardwheel.ms(created_at)
