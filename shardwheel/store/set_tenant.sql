SELECT set_config('shardwheel.tenant', %(tenant_id)s, true)
