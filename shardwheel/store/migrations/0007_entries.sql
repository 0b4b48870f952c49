-- What a shard reads, once by its load and then by the change feed: one list of columns for both.

SET LOCAL ROLE shardwheel_migrator;

CREATE VIEW shardwheel.job_entries WITH (security_invoker = true) AS
SELECT uuid_send(j.job_id) AS job_id, j.partition, j.state = 'active' AS active, j.version, j.schedule,
       coalesce(shardwheel.ms(j.anchor_at), 0) AS anchor_ms, shardwheel.ms(j.start_at) AS start_ms, shardwheel.ms(j.last_at) AS last_ms,
       j.jitter_ms, j.misfire, j.misfire_grace_ms, j.catchup_window_ms, j.pool, j.priority, j.schedule_no,
       j.schedule_xid::text::bigint AS schedule_xid, shardwheel.ms(j.effective_from) AS effective_from_ms,
       j.changed_xid, j.state
  FROM shardwheel.jobs AS j;
COMMENT ON VIEW shardwheel.job_entries IS 'A job as a shard holds it (job.JobEntry, in its order), with what the feed and the load choose by.';

CREATE VIEW shardwheel.waiting_entries WITH (security_invoker = true) AS
SELECT uuid_send(x.execution_id) AS execution_id, uuid_send(x.job_id) AS job_id, x.partition, x.attempt, shardwheel.ms(x.due_at) AS due_ms,
       shardwheel.ms(x.scheduled_at) AS scheduled_ms, j.pool, j.priority, x.changed_xid::text::bigint AS changed_xid_number,
       x.changed_xid
  FROM shardwheel.executions AS x
  JOIN shardwheel.jobs AS j USING (job_id)
 WHERE x.state IN ('queued', 'retry_wait');
COMMENT ON VIEW shardwheel.waiting_entries IS 'An execution that waits to be published (job.WaitingExecution, in its order).';

GRANT SELECT ON shardwheel.job_entries, shardwheel.waiting_entries TO shardwheel_system;
