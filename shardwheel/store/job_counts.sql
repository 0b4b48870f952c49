-- Active jobs by partition, a tenant's or (null) everybody's, for people who ask: it walks the whole index.
SELECT partition, count(*)
  FROM shardwheel.jobs
 WHERE state = 'active' AND (%(tenant_id)s::text IS NULL OR tenant_id = %(tenant_id)s)
 GROUP BY partition
