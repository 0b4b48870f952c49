-- A batch of decisions on running attempts: fenced by attempt and claim token, so a result of any other
-- attempt changes nothing, and a batch that is replayed after a crash changes nothing either. A row that
-- waits afterwards counts its next attempt: the row is the outbox, the owner's wheel publishes it.
-- The rows are found by their ids alone and judged under the lock: a condition on their state would lead the
-- planner to the index of unfinished rows, which under load is full of those that ended since its last vacuum.
WITH result AS MATERIALIZED (
  SELECT *
    FROM unnest(%(execution_ids)s::uuid[], %(attempts)s::bigint[], %(tokens)s::uuid[], %(states)s::text[], %(reasons)s::text[],
                %(due)s::bigint[], %(failures)s::bigint[], %(outcomes)s::text[], %(classes)s::text[], %(messages)s::text[],
                %(tracebacks)s::text[], %(workers)s::text[], %(started)s::bigint[], %(ended)s::bigint[], %(outputs)s::text[],
                %(crashed)s::boolean[])
      AS r (execution_id, attempt, token, state, reason, due_ms, failures, outcome, class, message, traceback, worker, started_ms,
            ended_ms, output, crashed)
),
locked AS MATERIALIZED (
  SELECT x.execution_id, x.state = 'running' AS runs, x.attempt, x.claim_token, x.cancel_requested_at IS NOT NULL AS unwanted
    FROM shardwheel.executions AS x
   WHERE x.execution_id = ANY (%(execution_ids)s::uuid[])
   ORDER BY x.execution_id
     FOR UPDATE OF x
),
current AS MATERIALIZED (  -- Nobody wants another attempt of what was asked to stop.
  SELECT r.*, CASE WHEN l.unwanted AND r.state IN ('queued', 'retry_wait') THEN 'cancelled' ELSE r.state END AS next_state
    FROM result AS r
    JOIN locked AS l ON l.execution_id = r.execution_id AND l.attempt = r.attempt AND l.claim_token = r.token AND l.runs
),
settled AS (
  UPDATE shardwheel.executions AS x
     SET state = r.next_state, reason = CASE WHEN r.next_state <> r.state THEN 'cancelled' ELSE nullif(r.reason, '') END, failures = greatest(x.failures, r.failures),
         crashes = x.crashes + r.crashed::int,
         attempt = x.attempt + (r.next_state IN ('queued', 'retry_wait'))::int,
         due_at = CASE WHEN r.next_state IN ('queued', 'retry_wait') THEN shardwheel.at(r.due_ms) ELSE x.due_at END,
         ended_at = CASE WHEN r.next_state IN ('queued', 'retry_wait') THEN NULL ELSE clock_timestamp() END,
         duration_ms = greatest(r.ended_ms - r.started_ms, 0), output = coalesce(nullif(r.output, '')::jsonb, x.output),
         claim_token = NULL, lease_until = NULL, timeout_at = NULL,
         reported_generation = NULL, reported_partition = NULL, reported_offset = NULL
    FROM current AS r
   WHERE x.execution_id = r.execution_id
  RETURNING x.execution_id, x.tenant_id, x.partition, x.job_id, x.state, x.reason, x.dag_run_id, x.item_no, r.attempt, r.outcome, r.class, r.message, r.traceback, r.worker,
            r.started_ms, r.ended_ms
),
recorded AS (
  INSERT INTO shardwheel.attempts (execution_id, attempt, tenant_id, partition, job_id, outcome, class, message, traceback, worker,
                                   started_at, ended_at, slot_ms)
  SELECT execution_id, attempt, tenant_id, partition, job_id, outcome, nullif(class, ''), nullif(message, ''), nullif(traceback, ''), worker,
         shardwheel.at(started_ms), shardwheel.at(ended_ms), greatest(ended_ms - started_ms, 0)
    FROM settled
   ORDER BY execution_id, attempt
  ON CONFLICT DO NOTHING
),
put_off AS (  -- Their runs are not locked: they are told later.
  INSERT INTO shardwheel.dag_put_off AS p (dag_run_id, task_id, item_no, tenant_id, partition, state, reason)
  SELECT dag_run_id, job_id, coalesce(item_no, -1), tenant_id, partition, state, reason
    FROM settled
   WHERE %(put_off)s AND dag_run_id IS NOT NULL AND state NOT IN ('queued', 'retry_wait')
   ORDER BY dag_run_id, job_id, item_no
  ON CONFLICT (dag_run_id, task_id, item_no) DO UPDATE SET state = excluded.state, reason = excluded.reason
)
SELECT uuid_send(execution_id), state, uuid_send(dag_run_id), uuid_send(job_id), item_no, reason FROM settled
