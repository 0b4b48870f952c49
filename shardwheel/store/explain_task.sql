-- What holds for a task type, whether or not something was set for it, and who could run it.
SELECT coalesce(t.paused, false), shardwheel.ms(t.paused_at), coalesce(t.paused_by, ''), t.max_running,
       CASE WHEN t.max_running IS NOT NULL THEN
         (SELECT count(*) FROM shardwheel.task_slots AS s WHERE s.tenant_id = %(tenant_id)s AND s.task = %(task)s AND s.execution_id IS NOT NULL) END,
       t.rate_per_s, shardwheel.ms(b.open_until), w.able, w.there
  FROM (SELECT count(*) AS there, count(*) FILTER (WHERE %(task)s = ANY (tasks)) AS able
          FROM shardwheel.workers
         WHERE pool = %(pool)s AND seen_at > clock_timestamp() - %(silence)s) AS w
  LEFT JOIN shardwheel.task_types AS t ON t.tenant_id = %(tenant_id)s AND t.task = %(task)s
  LEFT JOIN shardwheel.task_breakers AS b ON b.tenant_id = %(tenant_id)s AND b.task = %(task)s
