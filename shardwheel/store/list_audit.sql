-- A page of a tenant's audit, the latest entry first.
SELECT audit_id, shardwheel.ms(at), actor, role, action, object_kind, object_id, details
  FROM shardwheel.audit
 WHERE tenant_id = %(tenant_id)s AND audit_id < %(before)s
   AND (%(actor)s::text IS NULL OR actor = %(actor)s)
   AND (%(action)s::text IS NULL OR action = %(action)s)
   AND (%(object_kind)s::text IS NULL OR object_kind = %(object_kind)s)
   AND (%(object_id)s::text IS NULL OR object_id = %(object_id)s)
   AND (%(from_ms)s::bigint IS NULL OR at >= shardwheel.at(%(from_ms)s))
   AND (%(until_ms)s::bigint IS NULL OR at < shardwheel.at(%(until_ms)s))
 ORDER BY audit_id DESC
 LIMIT %(limit)s
