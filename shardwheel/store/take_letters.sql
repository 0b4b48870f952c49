-- Dead letters that the topic does not have yet, oldest first, whole. Whoever takes them says so: another one waits
-- half a minute before it takes them too, in case the first one died. So a letter is published at least once.
WITH unpublished AS MATERIALIZED (
  SELECT dead_letter_id
    FROM shardwheel.dead_letters
   WHERE published_at IS NULL AND (offered_at IS NULL OR offered_at < now() - interval '30 seconds')
   ORDER BY created_at, dead_letter_id
   LIMIT %(most)s
     FOR UPDATE SKIP LOCKED
)
UPDATE shardwheel.dead_letters AS l
   SET offered_at = clock_timestamp()
  FROM unpublished AS u
 WHERE l.dead_letter_id = u.dead_letter_id
RETURNING uuid_send(l.dead_letter_id), uuid_send(l.execution_id), uuid_send(l.job_id), uuid_send(l.dag_run_id), l.partition, l.task, l.state,
          l.reason, l.class, l.message, l.worker, l.origin, shardwheel.ms(l.scheduled_at), l.attempt, l.failures, l.crashes,
          shardwheel.ms(l.created_at), uuid_send(l.redriven_as), l.resolved_by, shardwheel.ms(l.resolved_at),
          l.params, l.job, l.attempts, l.traceback, l.checkpoint, l.progress, l.trace, shardwheel.ms(l.published_at), l.tenant_id
