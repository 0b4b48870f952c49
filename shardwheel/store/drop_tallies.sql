DELETE FROM shardwheel.task_tallies WHERE since < clock_timestamp() - %(kept)s
