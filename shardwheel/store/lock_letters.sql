-- Letters of tasks, locked in key order, each with how its execution, its task (of an item: the fan-out) and its job stand. Their runs are locked.
SELECT uuid_send(l.dead_letter_id), uuid_send(l.execution_id), uuid_send(l.job_id), uuid_send(l.dag_run_id), l.state, uuid_send(l.redriven_as),
       x.item_no, coalesce(x.state = 'dead' AND x.attempt = l.attempt AND t.state IN ('dead', 'running'), false), j.state
  FROM shardwheel.dead_letters AS l
  LEFT JOIN shardwheel.executions AS x ON x.execution_id = l.execution_id
  LEFT JOIN shardwheel.executions AS t ON t.dag_run_id = l.dag_run_id AND t.job_id = l.job_id AND t.item_no IS NULL
  LEFT JOIN shardwheel.jobs AS j ON j.job_id = l.job_id
 WHERE l.dead_letter_id = ANY (%(letter_ids)s::uuid[]) AND l.tenant_id = %(tenant_id)s
 ORDER BY l.dead_letter_id
   FOR UPDATE OF l
