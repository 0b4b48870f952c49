-- Progress and log lines of running attempts, fenced: whoever is not the current attempt changes nothing. Of one
-- execution's lines the last so many bytes are kept, by whole rows.
WITH note AS MATERIALIZED (
  SELECT *
    FROM unnest(%(execution_ids)s::uuid[], %(attempts)s::bigint[], %(tokens)s::uuid[], %(progress)s::text[], %(first_lines)s::bigint[],
                %(counts)s::bigint[], %(lines)s::text[])
      AS n (execution_id, attempt, token, progress, first_line, count, lines)
),
locked AS MATERIALIZED (
  SELECT x.execution_id, x.tenant_id, x.partition, x.state, x.attempt, x.claim_token
    FROM shardwheel.executions AS x
   WHERE x.execution_id = ANY (%(execution_ids)s::uuid[])
   ORDER BY x.execution_id
     FOR UPDATE OF x
),
believed AS MATERIALIZED (
  SELECT n.*, l.tenant_id, l.partition
    FROM note AS n
    JOIN locked AS l ON l.execution_id = n.execution_id AND l.attempt = n.attempt AND l.claim_token = n.token AND l.state = 'running'
),
added AS (
  INSERT INTO shardwheel.execution_logs (execution_id, attempt, first_line, tenant_id, partition, count, bytes, lines)
  SELECT execution_id, attempt, first_line, tenant_id, partition, count, octet_length(lines), lines::jsonb
    FROM believed
   WHERE count > 0
   ORDER BY execution_id, attempt, first_line
  ON CONFLICT DO NOTHING
),
trimmed AS (
  DELETE FROM shardwheel.execution_logs AS l
   USING (SELECT k.execution_id, k.attempt, k.first_line,
                 f.bytes + sum(k.bytes) OVER (PARTITION BY k.execution_id ORDER BY k.attempt DESC, k.first_line DESC) AS up_to_here
            FROM shardwheel.execution_logs AS k
            JOIN (SELECT execution_id, sum(octet_length(lines)) AS bytes FROM believed WHERE count > 0 GROUP BY execution_id) AS f
              USING (execution_id)) AS old
   WHERE l.execution_id = old.execution_id AND l.attempt = old.attempt AND l.first_line = old.first_line
     AND old.up_to_here > %(log_limit)s
)
UPDATE shardwheel.executions AS x SET progress = b.progress::jsonb
  FROM believed AS b
 WHERE x.execution_id = b.execution_id AND b.progress <> ''
