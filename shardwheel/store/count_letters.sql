-- How many dead letters somebody is about to deal with.
SELECT count(*)
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
