-- Idempotency keys of jobs that are stored together, each with the job that it stands for from now on; those that are
-- in use are left out. In one order, so that two batches do not wait for each other in a circle.
INSERT INTO shardwheel.idempotency_keys AS k (tenant_id, key, body_hash, answer, expires_at)
SELECT %(tenant_id)s, g.key, uuid_send(g.body_hash), to_jsonb(g.answer), clock_timestamp() + interval '24 hours'
  FROM unnest(%(keys)s, %(body_hashes)s, %(answers)s) AS g (key, body_hash, answer)
 ORDER BY g.key COLLATE "C"
ON CONFLICT (tenant_id, key) DO UPDATE
   SET body_hash = excluded.body_hash, expires_at = excluded.expires_at, created_at = clock_timestamp(), answer = excluded.answer
 WHERE k.expires_at < clock_timestamp()
RETURNING key
