-- Idempotency keys that ran out.
DELETE FROM shardwheel.idempotency_keys
 WHERE (tenant_id, key) IN (
   SELECT tenant_id, key FROM shardwheel.idempotency_keys
    WHERE expires_at < now()
    ORDER BY expires_at LIMIT %(most)s FOR UPDATE SKIP LOCKED)
