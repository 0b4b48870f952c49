-- These are over.
UPDATE shardwheel.alerts
   SET resolved_at = date_trunc('milliseconds', clock_timestamp())
 WHERE alert_id = ANY (%(alert_ids)s::uuid[]) AND resolved_at IS NULL
