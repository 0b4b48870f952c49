-- What became of a version's tasks in a run. Of a task that was redriven, the latest execution; of a fan-out, how many items are over.
-- Of 10,000 outputs of 10 KB only the first are read, by key, so many bytes in all: each can be read with its execution.
-- What belongs to a task is looked up task by task: the planner, which may not know yet how many there are, can't go through
-- the whole run for each.
WITH task AS MATERIALIZED (
  SELECT t.task_key, t.task_id, x.*, CASE WHEN x.output IS NOT NULL THEN sum(octet_length(x.output::text)) OVER (ORDER BY t.task_key) END AS bytes_so_far
    FROM shardwheel.dag_tasks AS t
    LEFT JOIN LATERAL (SELECT x.execution_id, x.state, x.reason, x.attempt, x.failures, x.started_at, x.ended_at, x.duration_ms, x.output
                         FROM shardwheel.executions AS x
                        WHERE x.dag_run_id = %(dag_run_id)s AND x.job_id = t.task_id AND x.item_no IS NULL
                        ORDER BY x.created_at DESC, x.execution_id DESC
                        LIMIT 1) AS x ON true
   WHERE t.dag_id = %(dag_id)s AND t.version = %(version)s AND t.tenant_id = %(tenant_id)s
)
SELECT t.task_key, uuid_send(t.task_id), uuid_send(t.execution_id), t.state, t.reason, t.attempt, t.failures, shardwheel.ms(t.started_at),
       shardwheel.ms(t.ended_at), t.duration_ms, CASE WHEN t.bytes_so_far <= %(most_bytes)s THEN t.output END, t.bytes_so_far > %(most_bytes)s,
       f.items, f.open_items, f.failed_items, f.skipped_items
  FROM task AS t
  LEFT JOIN LATERAL (SELECT f.items, f.open_items, f.failed_items, f.skipped_items
                       FROM shardwheel.dag_fans AS f
                      WHERE f.dag_run_id = %(dag_run_id)s AND f.task_id = t.task_id
                     OFFSET 0) AS f ON true
