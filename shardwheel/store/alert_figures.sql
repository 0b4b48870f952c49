-- What the rules need to know of the tables. Partitions that were never fired have neither a watermark nor a floor.
SELECT shardwheel.now_ms(),
       (SELECT count(*) FROM shardwheel.dead_letters WHERE state = 'open'),
       (SELECT min(fired_through_ms) FROM shardwheel.partitions WHERE fired_through_ms > 0),
       (SELECT partition FROM shardwheel.partitions WHERE fired_through_ms > 0 ORDER BY fired_through_ms, partition LIMIT 1),
       (SELECT min(floor_ms) FROM shardwheel.partitions WHERE floor_ms > 0),
       (SELECT partition FROM shardwheel.partitions WHERE floor_ms > 0 ORDER BY floor_ms, partition LIMIT 1),
       r.succeeded, r.ended,
       ARRAY(SELECT w.address FROM shardwheel.workers AS w WHERE w.address <> '' AND w.seen_at > clock_timestamp() - interval '30 s' ORDER BY w.address)
  FROM (SELECT count(*) FILTER (WHERE state = 'succeeded') AS succeeded, count(*) AS ended
          FROM shardwheel.dag_runs
         WHERE ended_at > clock_timestamp() - interval '1 hour' AND state IN ('succeeded', 'failed', 'partial')) AS r
