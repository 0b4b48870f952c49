-- What each receiver has still to be told, and is due for a try: that an alert is open, or worse than it knows, unless it
-- is silenced; that one it knows of is over. The next try is set before this one begins, twice as far away each time.
-- Two looks, since each has its index: months of alerts that are over must not be read every other second.
WITH recent AS (
  SELECT * FROM shardwheel.alerts WHERE resolved_at IS NULL
   UNION ALL
  SELECT * FROM shardwheel.alerts WHERE resolved_at > now() - interval '1 day'
),
wanted AS MATERIALIZED (
  SELECT a.*, r.receiver, coalesce(d.tries, 0) AS tries, CASE WHEN a.resolved_at IS NULL THEN a.severity ELSE 'resolved' END AS tell
    FROM recent AS a
   CROSS JOIN unnest(%(receivers)s::text[]) AS r (receiver)
    LEFT JOIN shardwheel.alert_deliveries AS d USING (alert_id, receiver)
   WHERE CASE WHEN a.resolved_at IS NULL
              THEN d.told IS DISTINCT FROM a.severity AND (a.silenced_until IS NULL OR a.silenced_until <= clock_timestamp())
              ELSE d.told <> 'resolved' END
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
SELECT w.receiver, w.tell, uuid_send(w.alert_id), w.rule, w.subject, w.severity, w.value, w.sentence, w.remedy, w.facts,
       shardwheel.ms(w.opened_at), shardwheel.ms(w.last_seen_at), shardwheel.ms(w.notified_at), shardwheel.ms(w.resolved_at),
       shardwheel.ms(w.silenced_until)
  FROM wanted AS w
 ORDER BY w.opened_at, w.alert_id
