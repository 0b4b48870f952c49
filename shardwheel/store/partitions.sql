SELECT partition, epoch, owner, fired_through_ms, horizon_xid::text::bigint, floor_ms, floor_xid::text::bigint,
  kafka_generation, system_identifier, timeline
FROM shardwheel.partitions
WHERE partition = ANY(%(partitions)s::smallint[])
ORDER BY partition
