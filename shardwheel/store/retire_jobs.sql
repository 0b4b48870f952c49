-- Tombstones, once nothing speaks of the job any more.
DELETE FROM shardwheel.jobs
 WHERE job_id IN (
   SELECT j.job_id
     FROM shardwheel.jobs AS j
    WHERE j.state = 'deleted' AND j.deleted_at < now() - %(deleted_jobs)s
      AND NOT EXISTS (SELECT FROM shardwheel.executions AS x WHERE x.job_id = j.job_id)
      AND NOT EXISTS (SELECT FROM shardwheel.work_rows AS w WHERE w.job_id = j.job_id AND w.state = 'open')
      AND NOT EXISTS (SELECT FROM shardwheel.jobs AS t WHERE t.dag_id = j.job_id AND t.job_id <> j.job_id)
    ORDER BY j.deleted_at LIMIT %(most)s FOR UPDATE OF j SKIP LOCKED)
