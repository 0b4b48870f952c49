-- A worker is alive: its leases go on. Returned is what it still holds, and whether it is asked to stop.
WITH held AS MATERIALIZED (
  SELECT * FROM unnest(%(execution_ids)s::uuid[], %(attempts)s::bigint[], %(tokens)s::uuid[], %(partitions)s::bigint[], %(offsets)s::bigint[])
             AS h (execution_id, attempt, token, reported_partition, reported_offset)
),
locked AS MATERIALIZED (
  SELECT x.execution_id, x.state, x.attempt, x.claim_token FROM shardwheel.executions AS x
   WHERE x.execution_id = ANY (%(execution_ids)s::uuid[])
   ORDER BY x.execution_id
     FOR UPDATE OF x
)
UPDATE shardwheel.executions AS x
   SET lease_until = clock_timestamp() + %(lease)s,
       reported_generation = CASE WHEN h.reported_offset >= 0 THEN %(generation)s ELSE x.reported_generation END,
       reported_partition = CASE WHEN h.reported_offset >= 0 THEN h.reported_partition ELSE x.reported_partition END,
       reported_offset = CASE WHEN h.reported_offset >= 0 THEN h.reported_offset ELSE x.reported_offset END
  FROM held AS h
  JOIN locked AS l ON l.execution_id = h.execution_id AND l.attempt = h.attempt AND l.claim_token = h.token AND l.state = 'running'
 WHERE x.execution_id = h.execution_id
RETURNING uuid_send(x.execution_id), x.cancel_requested_at IS NOT NULL
