-- Whether an execution has begun, or will not any more.
SELECT 1 FROM shardwheel.executions WHERE execution_id = %(execution_id)s AND (started_at IS NOT NULL OR state NOT IN ('queued', 'held'))
