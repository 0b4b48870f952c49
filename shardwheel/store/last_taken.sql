SELECT coalesce(max(shardwheel.ms(taken_at)), 0) FROM shardwheel.partitions
