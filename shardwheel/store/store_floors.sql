-- The leader's word: everything fired up to (T, X) has met the claim. Only where Kafka's data and PostgreSQL are
-- still those under which that was read; a floor never goes back.
UPDATE shardwheel.partitions AS p
   SET floor_ms = f.floor_ms, floor_xid = f.floor_xid, floor_at = date_trunc('milliseconds', clock_timestamp())
  FROM unnest(%(partitions)s::bigint[], %(floors)s::bigint[], %(xids)s::text[]::xid8[]) AS f (partition, floor_ms, floor_xid)
 WHERE p.partition = f.partition AND p.kafka_generation = %(generation)s AND p.timeline = %(timeline)s
   AND p.system_identifier = %(system_identifier)s AND p.floor_ms <= f.floor_ms
