-- Letters of tasks that their runs let run again: the same execution, its next attempt.
WITH marked AS (
  UPDATE shardwheel.dead_letters AS l
     SET state = 'redriven', redriven_as = l.execution_id, resolved_by = %(actor)s, resolved_at = date_trunc('milliseconds', clock_timestamp())
   WHERE l.dead_letter_id = ANY (%(letter_ids)s::uuid[])
  RETURNING l.dead_letter_id, l.execution_id, l.dag_run_id
)
INSERT INTO shardwheel.audit (tenant_id, actor, role, action, object_kind, object_id, details)
SELECT %(tenant_id)s, %(actor)s, %(role)s, 'dead_letter.redrive', 'dead_letter', dead_letter_id,
       jsonb_build_object('before', jsonb_build_object('state', 'open'),
                          'after', jsonb_build_object('state', 'redriven', 'redriven_as', execution_id), 'dag_run', dag_run_id)
  FROM marked
 ORDER BY dead_letter_id
