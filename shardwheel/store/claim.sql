-- The one gate: a batch of messages becomes executions that may run, rows on record, or nothing.
--
-- A DAG's fire runs without worker, lease and handler: whoever called begins its run. A task obeys its DAG's state, and
-- is never skipped here: that would be an end, which locks the run before the execution. It is held with the reason,
-- and the sweep ends it. A job that has children (its dag_id is its own) begins a run when it first runs: its execution
-- is a task of that run from then on, but obeys its own state as any job does.
--
-- Lock order: jobs (of tasks, their DAGs too) FOR SHARE in key order (a concurrent pause is either seen or waits; FOR KEY SHARE would
-- let a plain UPDATE through), the task types likewise, then the existing executions in key order, then slots,
-- then the inserts in key order. A locked row is the current one, not the snapshot's. The claim never writes jobs.
--
-- Which message counts is decided per message, never by choosing one per id first: a row that waits is taken
-- by any fire with its attempt, whatever its schedule_no (so is one that another worker had no handler for, if this
-- one has it); without a row, any message with the job's present
-- schedule_no inserts one. Anything else writes nothing: a row would kill the rightful fire of the same id.
WITH message AS MATERIALIZED (
  SELECT *
    FROM unnest(%(execution_ids)s::uuid[], %(job_ids)s::uuid[], %(schedule_nos)s::bigint[], %(scheduled)s::bigint[],
                %(due)s::bigint[], %(attempts)s::bigint[], %(skips)s::boolean[], %(reasons)s::text[], %(priorities)s::bigint[])
      AS m (execution_id, job_id, schedule_no, scheduled_ms, due_ms, attempt, skip, skip_reason, priority)
),
job AS MATERIALIZED (
  SELECT j.job_id, j.tenant_id, j.partition, j.task, j.params, j.state, j.schedule_no, j.pool, j.priority, j.timeout_ms,
         j.not_after_ms, j.overlap, j.callback_url IS NOT NULL AS notify, j.kind, j.dag_id,
         j.dag_id = j.job_id AS is_root
    FROM shardwheel.jobs AS j
   WHERE j.job_id = ANY (%(job_ids)s::uuid[] || ARRAY(SELECT k.dag_id FROM shardwheel.jobs AS k
                                                       WHERE k.job_id = ANY (%(job_ids)s::uuid[]) AND k.kind = 'task'))
   ORDER BY j.job_id
     FOR SHARE OF j
),
task_type AS MATERIALIZED (
  SELECT t.tenant_id, t.task, t.paused, b.open_until > clock_timestamp() AS breaker_open,
         t.max_running IS NOT NULL OR t.rate_per_s IS NOT NULL OR b.open_until IS NOT NULL AS limited
    FROM shardwheel.task_types AS t
    LEFT JOIN shardwheel.task_breakers AS b USING (tenant_id, task)
   WHERE (t.tenant_id, t.task) IN (SELECT j.tenant_id, j.task FROM job AS j)
   ORDER BY t.tenant_id, t.task
     FOR SHARE OF t
),
existing AS MATERIALIZED (
  SELECT x.execution_id, x.state, x.reason, x.attempt, x.origin, x.due_at, x.failures, x.params, x.started_at, x.trace, x.dag_run_id
    FROM shardwheel.executions AS x
   WHERE x.execution_id = ANY (%(execution_ids)s::uuid[])
     AND (SELECT count(*) FROM job) >= 0 AND (SELECT count(*) FROM task_type) >= 0  -- their locks come first
   ORDER BY x.execution_id
     FOR UPDATE OF x
),
chosen AS MATERIALIZED (
  SELECT DISTINCT ON (m.execution_id)
         m.execution_id, m.job_id, m.scheduled_ms, m.attempt, m.skip, m.skip_reason, m.schedule_no,
         e.execution_id IS NOT NULL AS waits, coalesce(e.origin, 'schedule') AS origin, coalesce(e.failures, 0) AS failures,
         coalesce(e.due_at, shardwheel.at(m.due_ms)) AS due_at, e.started_at IS NOT NULL AS began,
         j.pool <> %(pool)s OR j.priority <> m.priority AS moved,
         j.tenant_id, j.partition, j.task, coalesce(e.params, j.params) AS params, CASE WHEN j.state = 'deleted' THEN j.state ELSE coalesce(d.state, j.state) END AS job_state, j.timeout_ms, j.not_after_ms,
         j.overlap, j.notify, coalesce(t.paused, false) AS task_paused, coalesce(t.breaker_open, false) AS breaker_open,
         coalesce(t.limited, false) AS limited, coalesce(e.trace, '') AS trace, j.kind = 'dag' AS is_dag, j.is_root, e.dag_run_id,
         e.dag_run_id <> e.execution_id AS is_task
    FROM message AS m
    JOIN job AS j USING (job_id)
    LEFT JOIN job AS d ON d.job_id = j.dag_id
    LEFT JOIN existing AS e USING (execution_id)
    LEFT JOIN task_type AS t ON t.tenant_id = j.tenant_id AND t.task = j.task
   WHERE CASE WHEN e.execution_id IS NULL THEN m.schedule_no = j.schedule_no
              ELSE (e.state IN ('queued', 'retry_wait')
                    OR e.state = 'held' AND e.reason = 'handler_unknown' AND j.task = ANY (%(tasks)s::text[]))
                   AND e.attempt = m.attempt AND NOT m.skip END
   ORDER BY m.execution_id, m.skip  -- one of several that repeat each other; a fire wins over a skip of the same time
),
ruled AS MATERIALIZED (
  SELECT chosen.*,
         CASE
           WHEN skip THEN 'skipped:' || skip_reason
           WHEN job_state = 'deleted' THEN CASE WHEN dag_run_id IS NULL THEN 'skipped:deleted' ELSE 'held:deleted' END
           WHEN job_state = 'paused' AND is_task IS NOT TRUE AND (attempt > 1 OR began) THEN 'held:paused'
           WHEN job_state = 'paused' AND is_task IS NOT TRUE AND origin IN ('schedule', 'settled') THEN 'skipped:paused'
           WHEN job_state = 'paused' AND is_task
                AND (SELECT r.origin FROM shardwheel.dag_runs AS r WHERE r.dag_run_id = chosen.dag_run_id) IS DISTINCT FROM 'trigger' THEN 'held:paused'
           WHEN NOT began AND due_at + not_after_ms * interval '1 millisecond' < clock_timestamp()
             THEN CASE WHEN dag_run_id IS NULL THEN 'skipped:expired' ELSE 'held:expired' END
           WHEN moved THEN 'queued:moved'
           WHEN is_dag THEN 'running:'
           WHEN NOT task = ANY (%(tasks)s::text[]) THEN 'held:handler_unknown'
           WHEN task_paused THEN 'held:task_paused'
           WHEN breaker_open THEN 'held:breaker_open'
           ELSE 'running:' END AS ruling
    FROM chosen
),
-- For the few that have them, two gates more: the job's slot, and what the task type allows. In a function, so that
-- each of its statements sees what was committed by whoever it waited for.
gated AS MATERIALIZED (
  SELECT g.execution_id, g.ruling
    FROM (SELECT array_agg(tenant_id ORDER BY execution_id) AS tenants, array_agg(partition ORDER BY execution_id) AS partitions,
                 array_agg(job_id ORDER BY execution_id) AS jobs, array_agg(overlap ORDER BY execution_id) AS policies,
                 array_agg(CASE WHEN limited THEN task END ORDER BY execution_id) AS tasks,
                 array_agg(began ORDER BY execution_id) AS begun, array_agg(execution_id ORDER BY execution_id) AS ids
            FROM ruled
           WHERE ruling = 'running:' AND (overlap <> 'allow' OR limited)
          HAVING count(*) > 0) AS w
   CROSS JOIN LATERAL shardwheel.take_slots(w.tenants, w.partitions, w.jobs, w.policies, w.tasks, w.begun, w.ids) AS g
),
verdict AS MATERIALIZED (
  SELECT c.*, split_part(c.final, ':', 1) AS state, nullif(split_part(c.final, ':', 2), '') AS reason,
         split_part(c.final, ':', 1) = 'running' AND NOT c.is_dag AS has_worker,
         CASE WHEN c.is_root AND NOT c.began AND c.final = 'running:' THEN c.execution_id ELSE c.dag_run_id END AS run_id
    FROM (SELECT r.*, coalesce(g.ruling, r.ruling) AS final FROM ruled AS r LEFT JOIN gated AS g USING (execution_id)) AS c
),
inserted AS (
  INSERT INTO shardwheel.executions AS x
         (execution_id, tenant_id, partition, job_id, kind, origin, state, reason, scheduled_at, due_at, attempt, schedule_no,
          claim_token, worker, lease_until, timeout_at, started_at, ended_at, slotted, notify, dag_run_id)
  SELECT execution_id, tenant_id, partition, job_id, 0, origin, state, reason, shardwheel.at(scheduled_ms),
         CASE WHEN state = 'queued' THEN clock_timestamp() ELSE due_at END, attempt, schedule_no,
         CASE WHEN has_worker THEN %(token)s::uuid END, CASE WHEN has_worker THEN %(worker)s END,
         CASE WHEN has_worker THEN clock_timestamp() + %(lease)s END,
         CASE WHEN has_worker THEN clock_timestamp() + timeout_ms * interval '1 millisecond' END,
         CASE WHEN state = 'running' THEN clock_timestamp() END, CASE WHEN state = 'skipped' THEN clock_timestamp() END,
         overlap <> 'allow' OR limited, notify, run_id
    FROM verdict
   WHERE NOT waits
   ORDER BY execution_id
  ON CONFLICT (execution_id) DO NOTHING
  RETURNING x.execution_id, x.state, x.reason
),
updated AS (
  UPDATE shardwheel.executions AS x
     SET state = v.state, reason = v.reason,
         due_at = CASE WHEN v.state = 'queued' THEN clock_timestamp() ELSE x.due_at END,
         claim_token = CASE WHEN v.has_worker THEN %(token)s::uuid END, worker = CASE WHEN v.has_worker THEN %(worker)s END,
         lease_until = CASE WHEN v.has_worker THEN clock_timestamp() + %(lease)s END,
         timeout_at = CASE WHEN v.has_worker THEN clock_timestamp() + v.timeout_ms * interval '1 millisecond' END,
         started_at = CASE WHEN v.state = 'running' THEN clock_timestamp() ELSE x.started_at END,
         ended_at = CASE WHEN v.state = 'skipped' THEN clock_timestamp() END,
         reported_generation = NULL, reported_partition = NULL, reported_offset = NULL,
         slotted = x.slotted OR v.overlap <> 'allow' OR v.limited, notify = v.notify, dag_run_id = v.run_id
    FROM verdict AS v
   WHERE v.waits AND x.execution_id = v.execution_id  -- its state and attempt were read under the lock
     AND x.execution_id = ANY (%(execution_ids)s::uuid[])  -- so that no other month is planned for, nor all that lies between
  RETURNING x.execution_id, x.state, x.reason
),
-- Somebody else has inserted it meanwhile: what was taken for it here is not its own.
given_back AS MATERIALIZED (
  SELECT shardwheel.give_back(array_agg(v.job_id), array_agg(v.execution_id))
    FROM verdict AS v
   WHERE NOT v.waits AND (v.overlap <> 'allow' OR v.limited) AND NOT EXISTS (SELECT FROM inserted AS i WHERE i.execution_id = v.execution_id)
  HAVING count(*) > 0
)
SELECT w.state, w.reason, uuid_send(v.execution_id), uuid_send(v.job_id), v.partition, v.tenant_id, v.task,
       convert_to(v.params::text, 'UTF8'), v.scheduled_ms, v.attempt, v.failures, v.timeout_ms, shardwheel.ms(v.due_at), v.trace,
       coalesce(uuid_send(v.run_id), ''::bytea), v.is_dag,
       v.is_dag OR v.run_id IS DISTINCT FROM v.dag_run_id
  FROM (SELECT * FROM inserted UNION ALL SELECT * FROM updated) AS w
  JOIN verdict AS v USING (execution_id)
 WHERE (SELECT count(*) FROM given_back) >= 0
