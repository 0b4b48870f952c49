-- Tasks of a DAG, or children of a job, in its partition and without a schedule: what a version adds to those that it keeps.
INSERT INTO shardwheel.jobs
       (job_id, tenant_id, partition, kind, dag_id, task_key, task, name, params, tags, pool, priority, timeout_ms, max_retries, backoff,
        not_after_ms, callback_url)
SELECT job_id, %(tenant_id)s, %(partition)s, 'task', %(dag_id)s, task_key, task, name, params, ARRAY(SELECT jsonb_array_elements_text(tags)),
       pool, priority, timeout_ms, max_retries, backoff, not_after_ms, callback_url
  FROM jsonb_to_recordset(%(tasks)s::jsonb)
    AS t (job_id uuid, task_key text, task text, name text, params jsonb, tags jsonb, pool text, priority smallint, timeout_ms bigint,
          max_retries integer, backoff jsonb, not_after_ms bigint, callback_url text)
