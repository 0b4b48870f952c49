-- Stores T and X where the writer is still the owner: its epoch is the row's, and the PostgreSQL it took the
-- partition from is the row's and this one. (After a fail-over that lost a take, the next taker gets the
-- same epoch: the timeline tells the two apart.) A store that was overtaken changes nothing.
WITH given AS (
  SELECT * FROM unnest(
    %(partitions)s::smallint[], %(epochs)s::bigint[], %(fired_through)s::bigint[], %(horizons)s::text[]::xid8[]
  ) AS given(partition, epoch, fired_through_ms, horizon_xid)
), locked AS MATERIALIZED (
  SELECT p.partition FROM shardwheel.partitions p
  WHERE p.partition IN (SELECT partition FROM given)
  ORDER BY p.partition FOR NO KEY UPDATE
)
UPDATE shardwheel.partitions p
SET fired_through_ms = greatest(p.fired_through_ms, given.fired_through_ms),
    horizon_xid = greatest(p.horizon_xid, given.horizon_xid),
    updated_at = clock_timestamp()
FROM given JOIN locked USING (partition)
WHERE p.partition = given.partition AND p.epoch = given.epoch
  AND (p.system_identifier, p.timeline) = (%(system_identifier)s::bigint, %(timeline)s::int)
  AND (%(system_identifier)s::bigint, %(timeline)s::int) = (
    SELECT system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
    FROM pg_control_system())
RETURNING p.partition
