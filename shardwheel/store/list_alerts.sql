-- A page of alerts, the newest first: those that are open, those that are over, or both.
SELECT uuid_send(alert_id), rule, subject, severity, value, sentence, remedy, facts, shardwheel.ms(opened_at), shardwheel.ms(last_seen_at),
       shardwheel.ms(notified_at), shardwheel.ms(resolved_at), shardwheel.ms(silenced_until)
  FROM shardwheel.alerts
 WHERE (%(open)s::boolean IS NULL OR (resolved_at IS NULL) = %(open)s)
   AND (%(before_ms)s::bigint IS NULL OR (opened_at, alert_id) < (shardwheel.at(%(before_ms)s), %(before_id)s::uuid))
 ORDER BY opened_at DESC, alert_id DESC
 LIMIT %(limit)s
