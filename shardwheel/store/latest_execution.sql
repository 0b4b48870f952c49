-- A job's latest execution.
SELECT uuid_send(execution_id)
  FROM shardwheel.executions
 WHERE job_id = %(job_id)s AND tenant_id = %(tenant_id)s
 ORDER BY execution_id DESC
 LIMIT 1
