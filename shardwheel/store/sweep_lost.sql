-- Running attempts whose worker fell silent (its lease ended) or hangs (it is heard of, past the time-out and a
-- grace). A worker that was not heard of since then may be dead, and its death is no
-- failure of the attempt: so that is left to the end of its lease. An attempt whose result stands in the results topic and is not yet settled is left alone:
-- results that lag must not make finished work run again.
SELECT uuid_send(x.execution_id), uuid_send(x.job_id), x.partition, x.tenant_id, j.task, coalesce(uuid_send(x.dag_run_id), ''::bytea),
       x.attempt, uuid_send(x.claim_token), coalesce(x.worker, ''), shardwheel.ms(coalesce(x.started_at, x.lease_until)),
       x.lease_until >= clock_timestamp(), shardwheel.now_ms()
  FROM shardwheel.executions AS x
  JOIN shardwheel.jobs AS j USING (job_id)
  JOIN unnest(%(pools)s::text[], %(leases)s::interval[]) AS p (pool, lease) ON p.pool = j.pool
 WHERE x.execution_id = ANY (ARRAY(SELECT c.execution_id FROM shardwheel.claimed_ids AS c WHERE c.partition = ANY (%(partitions)s)))
   AND x.state = 'running' AND (x.dag_run_id IS NULL OR x.dag_run_id = ANY (%(run_ids)s::uuid[]))
   -- By both clocks: a lease may be that of another pool, which the job had when it was claimed.
   AND (x.lease_until < clock_timestamp()
        OR x.timeout_at + %(grace)s < x.lease_until - p.lease AND x.timeout_at + %(grace)s < clock_timestamp())
   AND NOT EXISTS (SELECT FROM unnest(%(topic_partitions)s::bigint[], %(settled)s::bigint[]) AS s (topic_partition, settled)
                    WHERE x.reported_generation = %(generation)s AND x.reported_partition = s.topic_partition
                      AND x.reported_offset >= s.settled)
 ORDER BY x.execution_id
 LIMIT %(most)s
   FOR UPDATE OF x SKIP LOCKED
