-- Null: leave it as it is; the two limits have a word of their own for that, since null takes a limit away.
INSERT INTO shardwheel.task_types AS t (tenant_id, task, paused, paused_at, paused_by, max_running, rate_per_s, burst, breaker)
VALUES (%(tenant_id)s, %(task)s, coalesce(%(paused)s::boolean, false), CASE WHEN %(paused)s::boolean THEN clock_timestamp() END,
        CASE WHEN %(paused)s::boolean THEN %(paused_by)s END, %(max_running)s, %(rate_per_s)s, %(burst)s, coalesce(%(breaker)s::boolean, true))
ON CONFLICT (tenant_id, task) DO UPDATE
   SET paused = coalesce(%(paused)s::boolean, t.paused),
       paused_at = CASE WHEN %(paused)s::boolean AND NOT t.paused THEN clock_timestamp() WHEN NOT %(paused)s::boolean THEN NULL ELSE t.paused_at END,
       paused_by = CASE WHEN %(paused)s::boolean AND NOT t.paused THEN %(paused_by)s WHEN NOT %(paused)s::boolean THEN NULL ELSE t.paused_by END,
       max_running = CASE WHEN %(set_running)s THEN excluded.max_running ELSE t.max_running END,
       rate_per_s = CASE WHEN %(set_rate)s THEN excluded.rate_per_s ELSE t.rate_per_s END,
       burst = CASE WHEN %(set_rate)s THEN excluded.burst ELSE t.burst END,
       breaker = coalesce(%(breaker)s::boolean, t.breaker), updated_at = clock_timestamp()
