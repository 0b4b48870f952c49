-- The rows that a batch of results speaks of, locked in key order, with all that a failure's decision needs.
-- A result of an attempt that is not the current one finds nothing here.
WITH result AS MATERIALIZED (
  SELECT * FROM unnest(%(execution_ids)s::uuid[], %(attempts)s::bigint[], %(tokens)s::uuid[]) AS r (execution_id, attempt, token)
),
locked AS MATERIALIZED (
  SELECT x.execution_id, x.job_id, x.tenant_id, x.state, x.attempt, x.claim_token, x.failures, x.crashes
    FROM shardwheel.executions AS x
   WHERE x.execution_id = ANY (%(execution_ids)s::uuid[])
   ORDER BY x.execution_id
     FOR UPDATE OF x
),
budget AS MATERIALIZED (
  SELECT t.tenant_id, sum(t.firsts)::bigint AS firsts, sum(t.retries)::bigint AS retries
    FROM shardwheel.task_tallies AS t
   WHERE t.tenant_id IN (SELECT l.tenant_id FROM locked AS l) AND t.since > clock_timestamp() - %(window)s
   GROUP BY t.tenant_id
)
SELECT uuid_send(l.execution_id), l.failures, l.crashes, j.max_retries, convert_to(j.backoff::text, 'UTF8'),
       (SELECT count(*) FROM shardwheel.attempts AS a WHERE a.execution_id = l.execution_id AND a.outcome = 'timed_out'),
       ARRAY(SELECT shardwheel.ms(a.ended_at) FROM shardwheel.attempts AS a
              WHERE a.execution_id = l.execution_id AND a.outcome IN ('failed', 'timed_out') AND a.ended_at > clock_timestamp() - interval '2 minutes'),
       coalesce(b.firsts, 0), coalesce(b.retries, 0)
  FROM locked AS l
  JOIN result AS r ON r.execution_id = l.execution_id AND r.attempt = l.attempt AND r.token = l.claim_token AND l.state = 'running'
  JOIN shardwheel.jobs AS j ON j.job_id = l.job_id
  LEFT JOIN budget AS b ON b.tenant_id = l.tenant_id
