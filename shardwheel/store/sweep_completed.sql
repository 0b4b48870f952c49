-- Jobs that are over: every time of theirs has met the claim (the floor says so, of this state of the schedule),
-- and nothing of theirs is unfinished or still to be expanded.
WITH running AS MATERIALIZED (
  SELECT x.job_id
    FROM shardwheel.executions AS x
   WHERE x.execution_id = ANY (ARRAY(SELECT c.execution_id FROM shardwheel.claimed_ids AS c WHERE c.partition = ANY (%(partitions)s)))
     AND x.state = 'running'
),
over AS MATERIALIZED (
  SELECT j.job_id
    FROM shardwheel.jobs AS j
    JOIN shardwheel.partitions AS p USING (partition)
   WHERE j.partition = ANY (%(partitions)s) AND j.state = 'active' AND j.kind = 'job' AND j.last_at IS NOT NULL
     AND j.last_at + j.jitter_ms * interval '1 millisecond' <= shardwheel.at(p.floor_ms) AND j.schedule_xid < p.floor_xid
     AND NOT EXISTS (SELECT FROM running AS r WHERE r.job_id = j.job_id)
     AND NOT EXISTS (SELECT FROM shardwheel.executions AS x WHERE x.job_id = j.job_id AND x.pending IS NOT NULL)
     AND NOT EXISTS (SELECT FROM shardwheel.work_rows AS w WHERE w.job_id = j.job_id AND w.state = 'open')
   ORDER BY j.job_id
   LIMIT %(most)s
     FOR UPDATE OF j SKIP LOCKED
)
UPDATE shardwheel.jobs AS j SET state = 'completed' FROM over AS o WHERE j.job_id = o.job_id AND j.state = 'active'
