-- An idempotency key is taken for 24 hours; one that ran out is free again.
INSERT INTO shardwheel.idempotency_keys AS k (tenant_id, key, body_hash, expires_at)
VALUES (%(tenant_id)s, %(key)s, %(body_hash)s, clock_timestamp() + interval '24 hours')
ON CONFLICT (tenant_id, key) DO UPDATE
   SET body_hash = excluded.body_hash, expires_at = excluded.expires_at, created_at = clock_timestamp(), answer = NULL
 WHERE k.expires_at < clock_timestamp()
