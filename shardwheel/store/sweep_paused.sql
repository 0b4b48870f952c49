-- Executions that were held because their job was paused, and whose job is not any more: a page of jobs after the
-- one looked at last. Those of a deleted job go on too: the claim skips them, and says why.
WITH page AS MATERIALIZED (
  SELECT h.tenant_id, h.held_for, j.job_id, h.partition = ANY (%(partitions)s) AND j.state <> 'paused' AS goes_on
    FROM shardwheel.holds('paused', %(after_tenant)s, %(after_job)s, %(page)s) AS h
    JOIN shardwheel.jobs AS j ON j.job_id = h.held_for::uuid
),
free AS MATERIALIZED (
  SELECT o.execution_id
    FROM page AS p
   CROSS JOIN LATERAL (
     SELECT x.execution_id
       FROM shardwheel.executions AS x
      WHERE x.pending = 'held' AND x.reason = 'paused' AND x.tenant_id = p.tenant_id AND x.held_for = p.held_for
      ORDER BY x.execution_id
      LIMIT %(most)s
        FOR UPDATE OF x SKIP LOCKED) AS o
   WHERE p.goes_on
),
released AS (
  UPDATE shardwheel.executions AS x
     SET state = 'queued', reason = NULL
    FROM free AS f
   WHERE x.execution_id = f.execution_id AND x.pending = 'held'
)
SELECT p.tenant_id, p.held_for FROM page AS p ORDER BY p.tenant_id DESC, p.held_for DESC LIMIT 1
