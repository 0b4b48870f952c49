-- A page of a tenant's dead letters, the latest first.
SELECT uuid_send(dead_letter_id), uuid_send(execution_id), uuid_send(job_id), uuid_send(dag_run_id), partition, task, state, reason, class,
       message, worker, origin, shardwheel.ms(scheduled_at), attempt, failures, crashes, shardwheel.ms(created_at), uuid_send(redriven_as),
       resolved_by, shardwheel.ms(resolved_at)
  FROM shardwheel.dead_letters
 WHERE tenant_id = %(tenant_id)s
   AND (%(state)s::text IS NULL OR state = %(state)s)
   AND (%(task)s::text IS NULL OR task = %(task)s)
   AND (%(reason)s::text IS NULL OR reason = %(reason)s)
   AND (%(error_class)s::text IS NULL OR class = %(error_class)s)
   AND (%(job_id)s::uuid IS NULL OR job_id = %(job_id)s)
   AND (%(tag)s::text IS NULL OR job -> 'tags' ? %(tag)s)
   AND (%(text)s::text IS NULL OR strpos(lower(concat_ws(' ', task, class, message)), lower(%(text)s)) > 0)
   AND (%(from_ms)s::bigint IS NULL OR created_at >= shardwheel.at(%(from_ms)s))
   AND (%(until_ms)s::bigint IS NULL OR created_at < shardwheel.at(%(until_ms)s))
   AND (created_at, dead_letter_id) < (shardwheel.at(%(before_ms)s), %(before_id)s::uuid)
 ORDER BY created_at DESC, dead_letter_id DESC
 LIMIT %(limit)s
