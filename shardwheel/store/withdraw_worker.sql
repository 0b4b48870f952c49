DELETE FROM shardwheel.workers WHERE worker_id = %(worker_id)s
