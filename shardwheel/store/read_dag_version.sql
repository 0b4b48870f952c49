-- A DAG's version as posted: the one asked for, or the latest.
SELECT version, policy, sla_ms, definition
  FROM shardwheel.dag_versions
 WHERE dag_id = %(dag_id)s AND tenant_id = %(tenant_id)s AND version = coalesce(%(version)s::integer, version)
 ORDER BY version DESC
 LIMIT 1
