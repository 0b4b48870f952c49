WITH gone AS (
  DELETE FROM shardwheel.workers AS w
   WHERE w.seen_at < clock_timestamp() - interval '1 hour' AND w.worker_id <> %(worker_id)s
)
INSERT INTO shardwheel.workers (worker_id, pool, tasks, slots, address)
VALUES (%(worker_id)s, %(pool)s, %(tasks)s, %(slots)s, %(address)s)
ON CONFLICT (worker_id) DO UPDATE SET tasks = excluded.tasks, address = excluded.address, seen_at = clock_timestamp()
