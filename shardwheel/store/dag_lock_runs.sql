-- Runs, locked in key order: whoever ends a task, or does something to a run, does this first. So all that happens to
-- one run happens one after the other.
SELECT uuid_send(r.dag_run_id), r.tenant_id, r.partition, uuid_send(r.dag_id), r.version, r.state, coalesce(r.reason, ''),
       shardwheel.ms(r.scheduled_at), shardwheel.ms(r.sla_at), r.unfinished, r.succeeded, r.failed, r.skipped, r.rounds, v.policy,
       coalesce(v.max_retries, j.max_retries), convert_to(coalesce(v.backoff, j.backoff)::text, 'UTF8'), j.kind = 'dag'
  FROM shardwheel.dag_runs AS r
  JOIN shardwheel.dag_versions AS v ON v.dag_id = r.dag_id AND v.version = r.version
  JOIN shardwheel.jobs AS j ON j.job_id = r.dag_id
 WHERE r.dag_run_id = ANY (%(run_ids)s::uuid[])
 ORDER BY r.dag_run_id
   FOR UPDATE OF r
