-- One dead letter with all that it carries.
SELECT uuid_send(dead_letter_id), uuid_send(execution_id), uuid_send(job_id), uuid_send(dag_run_id), partition, task, state, reason, class,
       message, worker, origin, shardwheel.ms(scheduled_at), attempt, failures, crashes, shardwheel.ms(created_at), uuid_send(redriven_as),
       resolved_by, shardwheel.ms(resolved_at),
       params, job, attempts, traceback, checkpoint, progress, trace, shardwheel.ms(published_at)
  FROM shardwheel.dead_letters
 WHERE dead_letter_id = %(dead_letter_id)s AND tenant_id = %(tenant_id)s
