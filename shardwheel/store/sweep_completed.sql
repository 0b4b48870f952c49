-- Jobs that are over: every time of theirs has met the claim (the floor says so, of this state of the schedule),
-- and nothing of theirs is unfinished or still to be expanded. A page of those whose last time has passed, after the
-- one looked at last: however many wait for something, a sweep costs a page. From the page on jobs are found by their
-- key alone: offered a condition on the state, a planner whose statistics are from before a burst joined the page with
-- all active jobs (14 s for 2,000 of 40,000).
WITH page AS MATERIALIZED (
  SELECT e.*
    FROM shardwheel.partitions AS p
   CROSS JOIN LATERAL (
     SELECT j.job_id, j.partition, j.last_at, j.schedule_no,
            j.kind IN ('job', 'dag') AND j.schedule_xid < p.floor_xid
            AND j.last_at + j.jitter_ms * interval '1 millisecond' <= shardwheel.at(p.floor_ms) AS has_met
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
candidate AS MATERIALIZED (
  SELECT e.job_id, e.schedule_no
    FROM page AS e
   WHERE e.has_met
     AND e.job_id NOT IN (SELECT r.job_id FROM running AS r)  -- hashed, however few the planner expects
     AND NOT EXISTS (SELECT FROM shardwheel.executions AS x WHERE x.job_id = e.job_id AND x.pending IS NOT NULL)
     AND NOT EXISTS (SELECT FROM shardwheel.work_rows AS w WHERE w.job_id = e.job_id AND w.state = 'open')
   ORDER BY e.job_id
),
locked AS MATERIALIZED (
  SELECT j.job_id, j.state = 'active' AND j.schedule_no = c.schedule_no AS is_unchanged
    FROM candidate AS c
   CROSS JOIN LATERAL (SELECT k.job_id, k.state, k.schedule_no FROM shardwheel.jobs AS k
                        WHERE k.job_id = c.job_id FOR UPDATE SKIP LOCKED) AS j
),
completed AS (
  UPDATE shardwheel.jobs AS j SET state = 'completed' FROM locked AS l WHERE j.job_id = l.job_id AND l.is_unchanged
  RETURNING j.job_id
)
SELECT (SELECT count(*) FROM completed), e.partition, shardwheel.ms(e.last_at), uuid_send(e.job_id)
  FROM page AS e
 ORDER BY e.partition DESC, e.last_at DESC, e.job_id DESC LIMIT 1
