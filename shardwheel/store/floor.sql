-- How far a partition was fired and claimed. Read without a lock: an older floor is safe.
SELECT fired_through_ms, floor_ms, floor_xid::text::bigint FROM shardwheel.partitions WHERE partition = %(partition)s
