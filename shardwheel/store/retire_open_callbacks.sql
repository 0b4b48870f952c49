-- Those that nobody delivered or gave up: without a callback_secret nobody does. The index of the open ones has
-- them all, and there are few wherever somebody delivers.
DELETE FROM shardwheel.callbacks
 WHERE callback_id IN (
   SELECT callback_id FROM shardwheel.callbacks
    WHERE state = 'open' AND created_at < now() - %(failed)s
    LIMIT %(most)s FOR UPDATE SKIP LOCKED)
