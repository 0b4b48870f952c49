-- Takes partitions and sets (T, X) back to the claim floor, under the present generation and PostgreSQL. A row
-- from another system is left alone: its xids mean nothing here until they are rebased.
WITH seen AS (
  SELECT * FROM unnest(%(partitions)s::smallint[], %(epochs)s::bigint[]) AS seen(partition, epoch)
), locked AS MATERIALIZED (
  SELECT p.partition FROM shardwheel.partitions p
  WHERE p.partition IN (SELECT partition FROM seen)
  ORDER BY p.partition FOR NO KEY UPDATE
)
UPDATE shardwheel.partitions p
SET epoch = p.epoch + 1, owner = %(owner)s, taken_at = clock_timestamp(), updated_at = clock_timestamp(),
    fired_through_ms = p.floor_ms, horizon_xid = p.floor_xid, kafka_generation = %(kafka_generation)s,
    system_identifier = %(system_identifier)s::bigint, timeline = %(timeline)s::int
FROM seen JOIN locked USING (partition)
WHERE p.partition = seen.partition AND p.epoch = seen.epoch
  AND p.system_identifier IN (0, %(system_identifier)s::bigint)
  AND (%(system_identifier)s::bigint, %(timeline)s::int) = (
    SELECT system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
    FROM pg_control_system())
RETURNING p.partition, p.epoch, p.owner, p.fired_through_ms, p.horizon_xid::text::bigint, p.floor_ms,
  p.floor_xid::text::bigint, p.kafka_generation, p.system_identifier, p.timeline
