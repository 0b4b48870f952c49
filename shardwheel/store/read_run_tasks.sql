-- What became of a version's tasks in a run. Of a task that was redriven, the latest execution; of a fan-out, how many items are over.
-- Of 10,000 outputs of 10 KB only the first are read, by key, so many bytes in all: each can be read with its execution.
WITH latest AS MATERIALIZED (
  SELECT DISTINCT ON (x.job_id) x.job_id, x.execution_id, x.state, x.reason, x.attempt, x.failures, x.started_at, x.ended_at, x.duration_ms, x.output
    FROM shardwheel.executions AS x
   WHERE x.dag_run_id = %(dag_run_id)s AND x.item_no IS NULL
   ORDER BY x.job_id, x.created_at DESC, x.execution_id DESC
),
outputs AS (
  SELECT x.job_id, sum(octet_length(x.output::text)) OVER (ORDER BY t.task_key) AS bytes_so_far
    FROM latest AS x
    JOIN shardwheel.dag_tasks AS t ON t.dag_id = %(dag_id)s AND t.version = %(version)s AND t.task_id = x.job_id
   WHERE x.output IS NOT NULL
)
SELECT t.task_key, uuid_send(t.task_id), uuid_send(x.execution_id), x.state, x.reason, x.attempt, x.failures, shardwheel.ms(x.started_at),
       shardwheel.ms(x.ended_at), x.duration_ms, CASE WHEN o.bytes_so_far <= %(most_bytes)s THEN x.output END, o.bytes_so_far > %(most_bytes)s, f.items, f.open_items, f.failed_items, f.skipped_items
  FROM shardwheel.dag_tasks AS t
  LEFT JOIN latest AS x ON x.job_id = t.task_id
  LEFT JOIN outputs AS o ON o.job_id = t.task_id
  LEFT JOIN shardwheel.dag_fans AS f ON f.dag_run_id = %(dag_run_id)s AND f.task_id = t.task_id
 WHERE t.dag_id = %(dag_id)s AND t.version = %(version)s AND t.tenant_id = %(tenant_id)s
