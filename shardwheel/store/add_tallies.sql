-- In spans of 30 s, to rows of this processor's own lane.
INSERT INTO shardwheel.task_tallies AS t (tenant_id, task, since, lane, runs, failures, firsts, retries)
SELECT c.tenant_id, c.task, date_bin('30 s', clock_timestamp(), timestamptz 'epoch'), %(lane)s, c.runs, c.failures, c.firsts, c.retries
  FROM unnest(%(tenants)s::text[], %(tasks)s::text[], %(runs)s::bigint[], %(failures)s::bigint[], %(firsts)s::bigint[], %(retries)s::bigint[])
    AS c (tenant_id, task, runs, failures, firsts, retries)
 ORDER BY c.tenant_id, c.task
ON CONFLICT (tenant_id, task, since, lane) DO UPDATE
   SET runs = t.runs + excluded.runs, failures = t.failures + excluded.failures,
       firsts = t.firsts + excluded.firsts, retries = t.retries + excluded.retries
