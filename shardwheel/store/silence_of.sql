-- Until when an alert is silenced, locked against another silence.
SELECT shardwheel.ms(silenced_until) FROM shardwheel.alerts WHERE alert_id = %(alert_id)s FOR UPDATE
