-- The leader's word: everything fired up to (T, X) has met the claim. Only where Kafka's data and PostgreSQL are
-- still those under which that was read, and its epoch too: a replay sets T back, and what it fires again has
-- not met the claim. The leader never moves a floor back. The row is not enough to tell: after a
-- fail-over that lost claims it names the old timeline until its owner has noticed.
UPDATE shardwheel.partitions AS p
   SET floor_ms = f.floor_ms, floor_xid = f.floor_xid, floor_at = date_trunc('milliseconds', clock_timestamp())
  FROM unnest(%(partitions)s::bigint[], %(epochs)s::bigint[], %(floors)s::bigint[], %(xids)s::text[]::xid8[])
         AS f (partition, epoch, floor_ms, floor_xid)
 WHERE p.partition = f.partition AND p.epoch = f.epoch AND p.kafka_generation = %(generation)s AND p.timeline = %(timeline)s
   AND p.system_identifier = %(system_identifier)s AND p.floor_ms <= f.floor_ms
   AND (%(system_identifier)s::bigint, %(timeline)s::int) = (
     SELECT system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
       FROM pg_control_system())
