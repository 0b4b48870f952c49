-- Spans that were expanded, below the floor only: a span that is fired again must find that it was expanded.
DELETE FROM shardwheel.work_rows
 WHERE work_id IN (
   SELECT w.work_id
     FROM shardwheel.work_rows AS w JOIN shardwheel.partitions AS p USING (partition)
    WHERE w.state <> 'open' AND w.ended_at < now() - %(failed)s AND shardwheel.ms(w.last_at) <= p.floor_ms
    ORDER BY w.ended_at LIMIT %(most)s FOR UPDATE OF w SKIP LOCKED)
