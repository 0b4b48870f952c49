-- Bumps the epoch where it is still the one seen. Rows are locked in key order first, so that two takers, or
-- a taker and a storer, never wait for each other in a circle; a row that changed while we waited is compared
-- as it is then.
WITH seen AS (
  SELECT * FROM unnest(%(partitions)s::smallint[], %(epochs)s::bigint[]) AS seen(partition, epoch)
), locked AS MATERIALIZED (
  SELECT p.partition FROM shardwheel.partitions p
  WHERE p.partition IN (SELECT partition FROM seen)
  ORDER BY p.partition FOR NO KEY UPDATE
)
UPDATE shardwheel.partitions p
SET epoch = p.epoch + 1, owner = %(owner)s, taken_at = clock_timestamp(), updated_at = clock_timestamp()
FROM seen JOIN locked USING (partition)
WHERE p.partition = seen.partition AND p.epoch = seen.epoch
RETURNING p.partition, p.epoch, p.owner, p.fired_through_ms, p.horizon_xid::text::bigint, p.floor_ms,
  p.floor_xid::text::bigint, p.kafka_generation, p.system_identifier, p.timeline
