-- A run by request, once a request: a repeat finds the first one's row, whose scheduled time is its own.
WITH known AS (
  SELECT execution_id FROM shardwheel.executions
   WHERE job_id = %(job_id)s AND request_id = %(request_id)s AND origin = 'trigger'
   LIMIT 1
),
made AS (
  INSERT INTO shardwheel.executions (execution_id, tenant_id, partition, job_id, kind, origin, state, scheduled_at, due_at, request_id, params)
  SELECT %(execution_id)s, %(tenant_id)s, %(partition)s, %(job_id)s, 1, 'trigger', 'queued', shardwheel.at(%(now_ms)s), shardwheel.at(%(now_ms)s),
         %(request_id)s, %(params)s::jsonb
   WHERE NOT EXISTS (SELECT FROM known)
  RETURNING execution_id
)
SELECT uuid_send(execution_id), false FROM known UNION ALL SELECT uuid_send(execution_id), true FROM made
