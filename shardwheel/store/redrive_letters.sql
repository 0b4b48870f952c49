-- A second chance for dead letters, but those of DAG tasks (letter_resuming): each becomes a new execution that waits, due now, with the letter's id as its
-- request. Of each letter the ruling: `redrive` was done here, any other says why not.
--
-- Lock order: jobs FOR SHARE (a delete is either seen or waits), then the letters, then the inserts, each in key
-- order. A locked letter is the current one: of two redrives at once, the second finds what the first one made.
WITH wish AS MATERIALIZED (
  SELECT * FROM unnest(%(letter_ids)s::uuid[], %(execution_ids)s::uuid[]) AS w (dead_letter_id, new_id)
),
job AS MATERIALIZED (
  SELECT j.job_id, j.state
    FROM shardwheel.jobs AS j
   WHERE j.job_id = ANY (%(job_ids)s::uuid[]) AND j.tenant_id = %(tenant_id)s
   ORDER BY j.job_id
     FOR SHARE OF j
),
letter AS MATERIALIZED (
  SELECT l.dead_letter_id, l.partition, l.job_id, l.dag_run_id, l.params, l.trace, l.state, l.redriven_as
    FROM shardwheel.dead_letters AS l
   WHERE l.dead_letter_id = ANY (%(letter_ids)s::uuid[]) AND l.tenant_id = %(tenant_id)s AND l.dag_run_id IS NULL
     AND (SELECT count(*) FROM job) >= 0  -- the jobs' locks come first
   ORDER BY l.dead_letter_id
     FOR UPDATE OF l
),
verdict AS MATERIALIZED (
  SELECT l.*, w.new_id,
         CASE
           WHEN l.state <> 'open' THEN l.state
           WHEN j.job_id IS NULL THEN 'job_gone'
           WHEN j.state = 'deleted' THEN 'job_deleted'
           ELSE 'redrive' END AS ruling
    FROM letter AS l
    JOIN wish AS w USING (dead_letter_id)
    LEFT JOIN job AS j USING (job_id)
),
made AS (
  INSERT INTO shardwheel.executions
         (execution_id, tenant_id, partition, job_id, kind, origin, state, scheduled_at, due_at, request_id, params, trace)
  SELECT new_id, %(tenant_id)s, partition, job_id, 3, 'redrive', 'queued', shardwheel.at(%(now_ms)s), shardwheel.at(%(now_ms)s),
         dead_letter_id, coalesce(%(params)s::jsonb, params), trace
    FROM verdict
   WHERE ruling = 'redrive'
   ORDER BY new_id
),
marked AS (
  UPDATE shardwheel.dead_letters AS l
     SET state = 'redriven', redriven_as = v.new_id, resolved_by = %(actor)s, resolved_at = date_trunc('milliseconds', clock_timestamp())
    FROM verdict AS v
   WHERE v.ruling = 'redrive' AND l.dead_letter_id = v.dead_letter_id
),
audited AS (
  INSERT INTO shardwheel.audit (tenant_id, actor, role, action, object_kind, object_id, details)
  SELECT %(tenant_id)s, %(actor)s, %(role)s, 'dead_letter.redrive', 'dead_letter', dead_letter_id,
         jsonb_build_object('before', jsonb_build_object('state', 'open'),
                            'after', jsonb_build_object('state', 'redriven', 'redriven_as', new_id),
                            'params_changed', %(params)s::jsonb IS DISTINCT FROM NULL AND %(params)s::jsonb <> params)
    FROM verdict
   WHERE ruling = 'redrive'
   ORDER BY dead_letter_id
)
SELECT uuid_send(v.dead_letter_id), v.ruling, uuid_send(CASE WHEN v.ruling = 'redrive' THEN v.new_id ELSE v.redriven_as END),
       (SELECT x.params FROM shardwheel.executions AS x WHERE x.execution_id = v.redriven_as)
  FROM verdict AS v
