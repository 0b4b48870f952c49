-- What a look found wrong: open alerts are brought up to date, the others opened. Severity only rises. A silence outlives
-- the alert that it was said of: one that comes and goes must not wake anybody at each of its comings.
INSERT INTO shardwheel.alerts AS a (rule, subject, severity, value, sentence, remedy, facts, silenced_until, silenced_by)
SELECT f.rule, f.subject, f.severity, f.value, f.sentence, f.remedy, f.facts, quiet.silenced_until, quiet.silenced_by
  FROM jsonb_to_recordset(%(findings)s::jsonb)
    AS f (rule text, subject text, severity text, value double precision, sentence text, remedy text, facts jsonb)
  LEFT JOIN LATERAL (SELECT p.silenced_until, p.silenced_by
                       FROM shardwheel.alerts AS p
                      WHERE p.rule = f.rule AND p.subject = f.subject AND p.silenced_until > clock_timestamp()
                      ORDER BY p.silenced_until DESC LIMIT 1) AS quiet ON true
 ORDER BY f.rule, f.subject
ON CONFLICT (rule, subject) WHERE resolved_at IS NULL DO UPDATE
   SET severity = CASE WHEN a.severity = 'critical' THEN a.severity ELSE excluded.severity END,
       value = excluded.value, sentence = excluded.sentence, facts = excluded.facts,
       last_seen_at = date_trunc('milliseconds', clock_timestamp())
