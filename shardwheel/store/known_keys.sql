SELECT key, body_hash, answer FROM shardwheel.idempotency_keys WHERE tenant_id = %(tenant_id)s AND key = ANY (%(keys)s)
