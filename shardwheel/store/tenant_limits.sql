-- What is limited for a tenant; no row: nothing of its own.
SELECT limits FROM shardwheel.tenants WHERE tenant_id = %(tenant_id)s
