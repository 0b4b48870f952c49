-- How a try ended: told, or the error for people to see.
WITH ended AS (
  UPDATE shardwheel.alert_deliveries
     SET told = CASE WHEN %(error)s::text IS NULL THEN %(tell)s ELSE told END,
         told_at = CASE WHEN %(error)s::text IS NULL THEN clock_timestamp() ELSE told_at END,
         tries = CASE WHEN %(error)s::text IS NULL THEN 0 ELSE tries END,
         next_try_at = CASE WHEN %(error)s::text IS NULL THEN NULL ELSE next_try_at END,
         error = %(error)s
   WHERE alert_id = %(alert_id)s AND receiver = %(receiver)s
  RETURNING alert_id, told_at
)
UPDATE shardwheel.alerts AS a
   SET notified_at = e.told_at
  FROM ended AS e
 WHERE a.alert_id = e.alert_id AND %(error)s::text IS NULL
