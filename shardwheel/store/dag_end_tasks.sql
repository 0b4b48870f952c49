-- Executions that run without a worker (a fan-out, a DAG's fire) are over. Which were not before.
UPDATE shardwheel.executions AS x
   SET state = t.state, reason = nullif(t.reason, ''), ended_at = clock_timestamp(),
       duration_ms = greatest(0, extract(epoch FROM clock_timestamp() - x.started_at) * 1000)
  FROM unnest(%(execution_ids)s::uuid[], %(states)s::text[], %(reasons)s::text[]) AS t (execution_id, state, reason)
 WHERE x.execution_id = t.execution_id AND x.state = 'running' AND x.lease_until IS NULL
RETURNING uuid_send(x.execution_id)
