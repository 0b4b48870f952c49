DELETE FROM shardwheel.producers WHERE login = %(login)s AND tenant_id = %(tenant_id)s
