-- Tell nobody of it until then; from now on, where that is past.
UPDATE shardwheel.alerts
   SET silenced_until = date_trunc('milliseconds', clock_timestamp()) + %(length)s, silenced_by = %(by)s
 WHERE alert_id = %(alert_id)s
RETURNING uuid_send(alert_id), rule, subject, severity, value, sentence, remedy, facts, shardwheel.ms(opened_at), shardwheel.ms(last_seen_at),
       shardwheel.ms(notified_at), shardwheel.ms(resolved_at), shardwheel.ms(silenced_until)
