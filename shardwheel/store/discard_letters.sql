-- Nobody will run these again. Of each letter the ruling: `discard` was done here, any other says why not.
WITH letter AS MATERIALIZED (
  SELECT l.dead_letter_id, l.redriven_as, CASE l.state WHEN 'open' THEN 'discard' ELSE l.state END AS ruling
    FROM shardwheel.dead_letters AS l
   WHERE l.dead_letter_id = ANY (%(letter_ids)s::uuid[]) AND l.tenant_id = %(tenant_id)s
   ORDER BY l.dead_letter_id
     FOR UPDATE OF l
),
marked AS (
  UPDATE shardwheel.dead_letters AS l
     SET state = 'discarded', resolved_by = %(actor)s, resolved_at = date_trunc('milliseconds', clock_timestamp())
    FROM letter AS v
   WHERE v.ruling = 'discard' AND l.dead_letter_id = v.dead_letter_id
),
audited AS (
  INSERT INTO shardwheel.audit (tenant_id, actor, role, action, object_kind, object_id, details)
  SELECT %(tenant_id)s, %(actor)s, %(role)s, 'dead_letter.discard', 'dead_letter', dead_letter_id,
         '{"before": {"state": "open"}, "after": {"state": "discarded"}}'
    FROM letter
   WHERE ruling = 'discard'
   ORDER BY dead_letter_id
)
SELECT uuid_send(dead_letter_id), ruling, uuid_send(redriven_as), NULL FROM letter
