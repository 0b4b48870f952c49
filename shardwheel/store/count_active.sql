-- How many active jobs a tenant has; the count stops where it is enough to know.
SELECT count(*) FROM (SELECT FROM shardwheel.jobs WHERE tenant_id = %(tenant_id)s AND state = 'active' LIMIT %(most)s) AS counted
