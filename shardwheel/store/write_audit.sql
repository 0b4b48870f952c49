INSERT INTO shardwheel.audit (tenant_id, actor, role, action, object_kind, object_id, details)
VALUES (%(tenant_id)s, %(actor)s, %(role)s, %(action)s, %(object_kind)s, %(object_id)s, %(details)s::jsonb)
