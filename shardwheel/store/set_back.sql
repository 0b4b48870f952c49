-- Sets T back to a time that somebody gave (none: to the floor), and X to the floor's, so that everything since
-- then is fired again. The epoch is bumped, so that the owner's next watermark is refused: it takes the partition
-- anew, from here. The floor goes back with T: what is fired again has not met the claim until it is claimed.
WITH before AS MATERIALIZED (
  SELECT partition, fired_through_ms AS was_ms, coalesce(%(since_ms)s::bigint, floor_ms) AS since_ms
  FROM shardwheel.partitions
  WHERE partition = ANY(%(partitions)s::smallint[])
    AND fired_through_ms > coalesce(%(since_ms)s::bigint, floor_ms)
  ORDER BY partition FOR NO KEY UPDATE
)
UPDATE shardwheel.partitions p
SET epoch = p.epoch + 1, fired_through_ms = before.since_ms, horizon_xid = least(p.horizon_xid, p.floor_xid),
    floor_ms = least(p.floor_ms, before.since_ms), updated_at = clock_timestamp()
FROM before
WHERE p.partition = before.partition
RETURNING p.partition, before.was_ms, p.fired_through_ms
