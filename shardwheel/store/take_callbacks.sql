-- Callbacks to try now: a few of each receiver, those that wait longest first, so that one that hangs, or a flood for
-- one, does not hold up the others. Taken by moving their next try on: should the taker die, they come again.
WITH RECURSIVE receiver AS (
  (SELECT c.host FROM shardwheel.callbacks AS c WHERE c.state = 'open' ORDER BY c.host LIMIT 1)
  UNION ALL
  SELECT (SELECT c.host FROM shardwheel.callbacks AS c WHERE c.state = 'open' AND c.host > r.host ORDER BY c.host LIMIT 1)
    FROM receiver AS r
   WHERE r.host IS NOT NULL
),
due AS MATERIALIZED (
  SELECT c.callback_id
    FROM receiver AS r
   CROSS JOIN LATERAL (
     SELECT c.callback_id, c.due_at FROM shardwheel.callbacks AS c
      WHERE c.state = 'open' AND c.host = r.host AND c.due_at <= now()
      ORDER BY c.due_at
      LIMIT %(most_of_one)s
        FOR UPDATE SKIP LOCKED) AS c
   WHERE r.host IS NOT NULL AND r.host <> ALL (%(busy)s::text[])
   ORDER BY c.due_at
   LIMIT %(most)s
)
UPDATE shardwheel.callbacks AS c
   SET tries = c.tries + 1, due_at = clock_timestamp() + %(lease)s
  FROM due AS d
 WHERE c.callback_id = d.callback_id
RETURNING uuid_send(c.callback_id), c.url, c.host, convert_to((jsonb_build_object('id', c.callback_id) || c.body)::text, 'UTF8'), c.tries,
          shardwheel.ms(clock_timestamp()) - shardwheel.ms(c.created_at), shardwheel.now_ms()
