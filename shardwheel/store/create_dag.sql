-- A new DAG: a job without a task, with the schedule and the policies of its fires. Its tasks come next.
INSERT INTO shardwheel.jobs
       (job_id, tenant_id, partition, kind, name, tags, schedule, anchor_at, start_at, end_at, last_at, max_runs, jitter_ms,
        pool, priority, max_retries, backoff, misfire, misfire_grace_ms, catchup_window_ms, overlap, not_after_ms)
SELECT %(dag_id)s, %(tenant_id)s, %(partition)s, 'dag', name, ARRAY(SELECT jsonb_array_elements_text(tags)), schedule,
       shardwheel.at(anchor_ms), shardwheel.at(start_ms), shardwheel.at(end_ms), shardwheel.at(last_ms), max_runs, jitter_ms,
       pool, priority, max_retries, backoff, misfire, misfire_grace_ms, catchup_window_ms, overlap, not_after_ms
  FROM jsonb_to_record(%(dag)s::jsonb)
    AS d (name text, tags jsonb, schedule text, anchor_ms bigint, start_ms bigint, end_ms bigint, last_ms bigint, max_runs integer,
          jitter_ms integer, pool text, priority smallint, max_retries integer, backoff jsonb, misfire text, misfire_grace_ms bigint,
          catchup_window_ms bigint, overlap text, not_after_ms bigint)
RETURNING shardwheel.ms(effective_from)
