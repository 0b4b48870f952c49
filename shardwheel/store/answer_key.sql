UPDATE shardwheel.idempotency_keys SET answer = %(answer)s WHERE tenant_id = %(tenant_id)s AND key = %(key)s
