-- Retention: alerts that were over long ago go, with their deliveries.
DELETE FROM shardwheel.alerts
 WHERE alert_id IN (SELECT alert_id FROM shardwheel.alerts WHERE resolved_at < clock_timestamp() - %(age)s ORDER BY resolved_at LIMIT 10000)
