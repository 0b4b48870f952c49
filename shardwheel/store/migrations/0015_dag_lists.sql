-- What a shard holds and what a list of DAGs reads: tasks have no schedule, so no wheel needs them.

SET LOCAL ROLE shardwheel_migrator;

CREATE INDEX jobs_dags ON shardwheel.jobs (tenant_id, job_id) WHERE kind = 'dag';
COMMENT ON INDEX shardwheel.jobs_dags IS 'A tenant''s DAGs, paged by job_id.';

CREATE OR REPLACE VIEW shardwheel.job_entries WITH (security_invoker = true) AS
SELECT uuid_send(j.job_id) AS job_id, j.partition, j.state = 'active' AS active, j.version, j.schedule,
       coalesce(shardwheel.ms(j.anchor_at), 0) AS anchor_ms, shardwheel.ms(j.start_at) AS start_ms, shardwheel.ms(j.last_at) AS last_ms,
       j.jitter_ms, j.misfire, j.misfire_grace_ms, j.catchup_window_ms, j.pool, j.priority, j.schedule_no,
       j.schedule_xid::text::bigint AS schedule_xid, shardwheel.ms(j.effective_from) AS effective_from_ms,
       j.changed_xid, j.state
  FROM shardwheel.jobs AS j
 WHERE j.kind <> 'task';
COMMENT ON VIEW shardwheel.job_entries IS 'A job as a shard holds it (job.JobEntry, in its order), with what the feed and the load choose by. Not a DAG''s tasks: they fire as waiting executions only.';
