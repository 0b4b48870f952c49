-- The sweep counts the open dead letters of its partitions every few seconds: only those, however many were dealt with.

SET LOCAL ROLE shardwheel_migrator;

CREATE INDEX dead_letters_depth ON shardwheel.dead_letters (partition) WHERE state = 'open';
COMMENT ON INDEX shardwheel.dead_letters_depth IS 'How many dead letters wait for somebody, by partition.';
