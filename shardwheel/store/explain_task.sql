-- What holds for a task type, whether or not something was set for it.
SELECT coalesce(t.paused, false), shardwheel.ms(t.paused_at), coalesce(t.paused_by, ''), t.max_running, NULL::bigint, t.rate_per_s,
       shardwheel.ms(t.breaker_open_until), NULL::bigint, NULL::bigint
  FROM (SELECT) AS nothing
  LEFT JOIN shardwheel.task_types AS t ON t.tenant_id = %(tenant_id)s AND t.task = %(task)s
