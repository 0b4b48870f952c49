UPDATE shardwheel.work_rows
   SET cursor_at = coalesce(shardwheel.at(%(cursor_ms)s), cursor_at), expanded = expanded + %(expanded)s, state = %(state)s,
       ended_at = CASE WHEN %(state)s <> 'open' THEN clock_timestamp() END
 WHERE work_id = %(work_id)s
