-- Which of the next executions, in the order of their ids, may be removed. What could still be fired again must
-- meet its row at the claim, so never one above its partition's claim floor:
-- * F is compared with its latest possible fire time (due_at is its fire time or later, but for one that was
--   cancelled ahead, whose jitter nobody asked);
-- * below F everything met the claim, but only of schedules that X_F knows: any other is replayed from its
--   effective_from on, wherever F stands;
-- * and a shard that slept for long catches up as far as the job's window says.
-- What belongs to a DAG's run stays until the run is gone: as long as that can go on, what ran of it must not run again.
-- Its age counts from its end, or from its fire time where that came later (it was cancelled ahead).
SELECT uuid_send(x.execution_id), fires.through_ms,
       coalesce(x.state IN ('succeeded', 'skipped', 'dead', 'cancelled', 'force_completed')
         AND greatest(x.ended_at, x.due_at) < clock_timestamp()
               - greatest(CASE WHEN x.state IN ('succeeded', 'skipped') THEN %(succeeded)s ELSE %(failed)s END,
                          j.catchup_window_ms * interval '1 millisecond' + interval '1 day')
         AND fires.through_ms <= p.floor_ms
         AND (j.job_id IS NULL OR j.schedule_xid < p.floor_xid OR x.scheduled_at < j.effective_from)
         AND r.dag_run_id IS NULL, false)
  FROM (SELECT * FROM shardwheel.executions
         WHERE execution_id > %(after)s AND execution_id < shardwheel.id_floor(now() - least(%(succeeded)s, %(failed)s))
         ORDER BY execution_id
         LIMIT %(most)s) AS x
  JOIN shardwheel.partitions AS p USING (partition)
  LEFT JOIN shardwheel.jobs AS j USING (job_id)
  LEFT JOIN shardwheel.dag_runs AS r ON r.dag_run_id = coalesce(x.dag_run_id, CASE WHEN j.kind = 'dag' THEN x.execution_id END)
 CROSS JOIN LATERAL (SELECT shardwheel.ms(greatest(x.due_at, x.scheduled_at + j.jitter_ms * interval '1 millisecond')) AS through_ms) AS fires
 ORDER BY x.execution_id
