-- Many acts at once, one a row: the actors, objects and details of a batch stand in columns.
INSERT INTO shardwheel.audit (tenant_id, actor, role, action, object_kind, object_id, details)
SELECT %(tenant_id)s, a.actor, a.role, %(action)s, %(object_kind)s, a.object_id, a.details::jsonb
  FROM unnest(%(actors)s, %(roles)s, %(object_ids)s, %(details)s) AS a (actor, role, object_id, details)
