-- What workers of a pool had no handler for, and this one has: the oldest of each task, as messages to claim by. Stepped
-- from hold to hold: a look at an index while there is none.
SELECT uuid_send(x.execution_id), uuid_send(x.job_id), x.partition, shardwheel.ms(x.scheduled_at), shardwheel.ms(x.due_at), x.attempt, x.priority
  FROM shardwheel.holds('handler_unknown', '', '', %(page)s) AS h
 CROSS JOIN LATERAL (
   SELECT x.execution_id, x.job_id, x.partition, x.scheduled_at, x.due_at, x.attempt, j.priority
     FROM shardwheel.executions AS x
     JOIN shardwheel.jobs AS j USING (job_id)
    WHERE x.pending = 'held' AND x.reason = 'handler_unknown' AND x.tenant_id = h.tenant_id AND x.held_for = h.held_for
      AND j.pool = %(pool)s
    ORDER BY x.execution_id
    LIMIT %(most)s) AS x
 WHERE h.held_for = ANY (%(tasks)s::text[])
 ORDER BY x.execution_id
 LIMIT %(most)s
