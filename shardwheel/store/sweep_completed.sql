-- Jobs that are over: every time of theirs has met the claim (the floor says so, of this state of the schedule),
-- and nothing of theirs is unfinished or still to be expanded. A page of those whose last time has passed, after the
-- one looked at last: however many wait for something, a sweep costs a page.
WITH page AS MATERIALIZED (
  SELECT e.job_id, e.partition, e.last_at
    FROM shardwheel.partitions AS p
   CROSS JOIN LATERAL (
     SELECT j.job_id, j.partition, j.last_at
       FROM shardwheel.jobs AS j
      WHERE j.partition = p.partition AND j.state = 'active' AND j.last_at IS NOT NULL AND j.last_at <= shardwheel.at(p.floor_ms)
        AND (p.partition > %(after_partition)s OR (j.last_at, j.job_id) > (shardwheel.at(%(after_ms)s), %(after_job)s))
      ORDER BY j.last_at, j.job_id
      LIMIT %(page)s) AS e
   WHERE p.partition = ANY (%(partitions)s) AND p.partition >= %(after_partition)s
   ORDER BY p.partition, e.last_at, e.job_id
   LIMIT %(page)s
),
running AS MATERIALIZED (
  SELECT x.job_id
    FROM shardwheel.executions AS x
   WHERE x.execution_id = ANY (ARRAY(SELECT c.execution_id FROM shardwheel.claimed_ids AS c WHERE c.partition = ANY (%(partitions)s)))
     AND x.state = 'running'
),
over AS MATERIALIZED (
  SELECT j.job_id
    FROM page AS e
    JOIN shardwheel.jobs AS j USING (job_id)
    JOIN shardwheel.partitions AS p ON p.partition = j.partition
   WHERE j.state = 'active' AND j.kind IN ('job', 'dag')
     AND j.last_at + j.jitter_ms * interval '1 millisecond' <= shardwheel.at(p.floor_ms) AND j.schedule_xid < p.floor_xid
     AND NOT EXISTS (SELECT FROM running AS r WHERE r.job_id = j.job_id)
     AND NOT EXISTS (SELECT FROM shardwheel.executions AS x WHERE x.job_id = j.job_id AND x.pending IS NOT NULL)
     AND NOT EXISTS (SELECT FROM shardwheel.work_rows AS w WHERE w.job_id = j.job_id AND w.state = 'open')
   ORDER BY j.job_id
     FOR UPDATE OF j SKIP LOCKED
),
completed AS (
  UPDATE shardwheel.jobs AS j SET state = 'completed' FROM over AS o WHERE j.job_id = o.job_id AND j.state = 'active'
  RETURNING j.job_id
)
SELECT (SELECT count(*) FROM completed), e.partition, shardwheel.ms(e.last_at), uuid_send(e.job_id)
  FROM page AS e
 ORDER BY e.partition DESC, e.last_at DESC, e.job_id DESC LIMIT 1
