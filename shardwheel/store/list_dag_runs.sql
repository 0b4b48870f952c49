-- A page of a DAG's runs, the latest scheduled time first.
SELECT uuid_send(dag_run_id), uuid_send(dag_id), version, state, reason, origin, shardwheel.ms(scheduled_at), shardwheel.ms(started_at),
       shardwheel.ms(ended_at), shardwheel.ms(sla_at), unfinished, succeeded, failed, skipped, rounds
  FROM shardwheel.dag_runs
 WHERE dag_id = %(dag_id)s AND tenant_id = %(tenant_id)s AND dag_run_id < %(before)s::uuid
   AND (%(state)s::text IS NULL OR state = %(state)s)
   AND (%(from_ms)s::bigint IS NULL OR scheduled_at >= shardwheel.at(%(from_ms)s))
   AND (%(until_ms)s::bigint IS NULL OR scheduled_at < shardwheel.at(%(until_ms)s))
 ORDER BY dag_run_id DESC
 LIMIT %(limit)s
