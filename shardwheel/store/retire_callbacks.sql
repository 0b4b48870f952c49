DELETE FROM shardwheel.callbacks
 WHERE callback_id IN (
   SELECT callback_id FROM shardwheel.callbacks
    WHERE state <> 'open' AND ended_at < now() - CASE state WHEN 'delivered' THEN %(succeeded)s ELSE %(failed)s END
    ORDER BY ended_at LIMIT %(most)s FOR UPDATE SKIP LOCKED)
