-- What each receiver has still to be told, and is due for a try: that an alert is open, or worse than it knows, unless it
-- is silenced; that one it knows of is over. The next try is set before this one begins, twice as far away each time.
WITH wanted AS MATERIALIZED (
  SELECT a.alert_id, r.receiver, coalesce(d.tries, 0) AS tries, CASE WHEN a.resolved_at IS NULL THEN a.severity ELSE 'resolved' END AS tell
    FROM shardwheel.alerts AS a
   CROSS JOIN unnest(%(receivers)s::text[]) AS r (receiver)
    LEFT JOIN shardwheel.alert_deliveries AS d USING (alert_id, receiver)
   WHERE CASE WHEN a.resolved_at IS NULL
              THEN d.told IS DISTINCT FROM a.severity AND (a.silenced_until IS NULL OR a.silenced_until <= clock_timestamp())
              ELSE a.resolved_at > clock_timestamp() - interval '1 day' AND d.told <> 'resolved' END
     AND (d.next_try_at IS NULL OR d.next_try_at <= clock_timestamp())
   ORDER BY a.alert_id, r.receiver
   LIMIT %(most)s
),
begun AS (
  INSERT INTO shardwheel.alert_deliveries AS d (alert_id, receiver, tries, next_try_at)
  SELECT alert_id, receiver, tries + 1, clock_timestamp() + least(15 * 2 ^ least(tries, 10), 600) * interval '1 second'
    FROM wanted
  ON CONFLICT (alert_id, receiver) DO UPDATE SET tries = excluded.tries, next_try_at = excluded.next_try_at
)
SELECT w.receiver, w.tell, uuid_send(a.alert_id), a.rule, a.subject, a.severity, a.value, a.sentence, a.remedy, a.facts,
       shardwheel.ms(a.opened_at), shardwheel.ms(a.last_seen_at), shardwheel.ms(a.notified_at), shardwheel.ms(a.resolved_at),
       shardwheel.ms(a.silenced_until)
  FROM wanted AS w JOIN shardwheel.alerts AS a USING (alert_id)
 ORDER BY a.opened_at, a.alert_id
