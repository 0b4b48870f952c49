SELECT login, tenant_id, tasks FROM shardwheel.producers ORDER BY login, tenant_id
