-- Spans of skipped times, below the floor only: what is fired again would write the span again.
DELETE FROM shardwheel.skip_ranges
 WHERE (job_id, first_at, last_at) IN (
   SELECT s.job_id, s.first_at, s.last_at
     FROM shardwheel.skip_ranges AS s JOIN shardwheel.partitions AS p USING (partition)
    WHERE s.created_at < now() - %(failed)s AND shardwheel.ms(s.last_at) <= p.floor_ms
    ORDER BY s.created_at LIMIT %(most)s FOR UPDATE OF s SKIP LOCKED)
