-- Slots whose execution does not run, or is over, and that nothing has freed: no way to that is known, but a slot that
-- is lost would hold its task or job for ever. Compared again under the lock: it may be taken anew meanwhile.
WITH stale_task AS MATERIALIZED (
  SELECT s.tenant_id, s.task, s.slot_no, s.execution_id
    FROM shardwheel.task_slots AS s
   WHERE s.execution_id IS NOT NULL AND shardwheel.partition_of(s.execution_id) = ANY (%(partitions)s)
     AND NOT EXISTS (SELECT FROM shardwheel.executions AS x WHERE x.execution_id = s.execution_id AND x.state = 'running')
),
stale_job AS MATERIALIZED (
  SELECT s.job_id, s.execution_id
    FROM shardwheel.overlap_slots AS s
   WHERE s.partition = ANY (%(partitions)s)
     AND NOT EXISTS (SELECT FROM shardwheel.executions AS x
                      WHERE x.execution_id = s.execution_id AND x.state IN ('queued', 'retry_wait', 'held', 'running'))
),
freed_task AS (
  UPDATE shardwheel.task_slots AS s SET execution_id = NULL
    FROM stale_task AS f
   WHERE s.tenant_id = f.tenant_id AND s.task = f.task AND s.slot_no = f.slot_no AND s.execution_id = f.execution_id
  RETURNING s.execution_id
),
freed_job AS (
  DELETE FROM shardwheel.overlap_slots AS s USING stale_job AS f
   WHERE s.job_id = f.job_id AND s.execution_id = f.execution_id
  RETURNING s.execution_id
)
SELECT (SELECT count(*) FROM freed_task) + (SELECT count(*) FROM freed_job)
