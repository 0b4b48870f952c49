-- Work rows of these partitions that are not done, oldest first; their jobs are held against a change of state.
WITH job AS MATERIALIZED (
  SELECT j.job_id, j.state
    FROM shardwheel.jobs AS j
   WHERE j.job_id IN (SELECT w.job_id FROM shardwheel.work_rows AS w WHERE w.partition = ANY (%(partitions)s) AND w.state = 'open')
   ORDER BY j.job_id
     FOR SHARE OF j
)
SELECT w.work_id, uuid_send(w.job_id), w.tenant_id, w.partition, w.origin, w.schedule, w.schedule_no, coalesce(shardwheel.ms(w.anchor_at), 0),
       w.jitter_ms, shardwheel.ms(w.first_at), shardwheel.ms(w.last_at), shardwheel.ms(w.cursor_at), w.requeue_skipped, job.state
  FROM shardwheel.work_rows AS w
  JOIN job USING (job_id)
 WHERE w.partition = ANY (%(partitions)s) AND w.state = 'open'
 ORDER BY w.work_id
 LIMIT 100
   FOR UPDATE OF w SKIP LOCKED
