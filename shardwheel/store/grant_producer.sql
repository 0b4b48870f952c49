SELECT shardwheel.grant_producer(%(login)s, %(tenant_id)s, %(tasks)s::text[])
