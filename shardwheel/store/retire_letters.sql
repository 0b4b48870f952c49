-- Old dead letters, open or not; one that is not in the topic yet stays until it is.
DELETE FROM shardwheel.dead_letters
 WHERE dead_letter_id IN (
   SELECT dead_letter_id FROM shardwheel.dead_letters
    WHERE created_at < now() - %(dead_letters)s AND published_at IS NOT NULL
    ORDER BY created_at LIMIT %(most)s FOR UPDATE SKIP LOCKED)
