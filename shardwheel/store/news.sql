-- What happened to a tenant's things lately, and what of it is held: bounded, however much there is. Of each
-- list only the latest rows are looked at, since a listener wants the tail and not the history.
SELECT 'execution', x.execution_id::text, jsonb_build_object('id', x.execution_id, 'job_id', x.job_id, 'state', x.state, 'reason', x.reason)
  FROM (SELECT * FROM shardwheel.executions WHERE tenant_id = %(tenant_id)s ORDER BY execution_id DESC LIMIT %(most)s) AS x
 WHERE x.ended_at >= clock_timestamp() - %(window)s
 UNION ALL
SELECT 'dead_letter', d.dead_letter_id::text, jsonb_build_object('id', d.dead_letter_id, 'execution_id', d.execution_id, 'task', d.task, 'reason', d.reason)
  FROM (SELECT * FROM shardwheel.dead_letters WHERE tenant_id = %(tenant_id)s ORDER BY created_at DESC, dead_letter_id DESC LIMIT %(most)s) AS d
 WHERE d.created_at >= clock_timestamp() - %(window)s
 UNION ALL
SELECT 'change', a.audit_id::text, jsonb_build_object('action', a.action, 'kind', a.object_kind, 'id', a.object_id, 'actor', a.actor)
  FROM (SELECT * FROM shardwheel.audit WHERE tenant_id = %(tenant_id)s ORDER BY audit_id DESC LIMIT %(most)s) AS a
 WHERE a.at >= clock_timestamp() - %(window)s
 UNION ALL
SELECT 'held', h.reason, to_jsonb(count(*))
  FROM (SELECT reason FROM shardwheel.executions
         WHERE pending = 'held' AND reason = ANY (%(reasons)s) AND tenant_id = %(tenant_id)s LIMIT %(most)s) AS h
 GROUP BY h.reason
