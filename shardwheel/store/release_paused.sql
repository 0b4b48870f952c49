-- What of a resumed job was held: the first of it goes on at once, the sweep sees to the rest.
WITH free AS MATERIALIZED (
  SELECT x.execution_id
    FROM shardwheel.executions AS x
   WHERE x.pending = 'held' AND x.reason = 'paused' AND x.tenant_id = %(tenant_id)s AND x.held_for = %(job_id)s::uuid::text
   ORDER BY x.execution_id
   LIMIT %(most)s
     FOR UPDATE OF x SKIP LOCKED
)
UPDATE shardwheel.executions AS x
   SET state = 'queued', reason = NULL
  FROM free AS f
 WHERE x.execution_id = f.execution_id AND x.pending = 'held'
