-- How far runs are, as whoever has locked them counted. One that ends ends at the database's time.
UPDATE shardwheel.dag_runs AS r
   SET state = s.state, reason = nullif(s.reason, ''), unfinished = s.unfinished, succeeded = s.succeeded, failed = s.failed,
       skipped = s.skipped, rounds = s.rounds, ended_at = CASE WHEN s.over THEN clock_timestamp() END
  FROM unnest(%(run_ids)s::uuid[], %(states)s::text[], %(reasons)s::text[], %(unfinished)s::bigint[], %(succeeded)s::bigint[],
              %(failed)s::bigint[], %(skipped)s::bigint[], %(rounds)s::bigint[], %(over)s::boolean[])
    AS s (run_id, state, reason, unfinished, succeeded, failed, skipped, rounds, over)
 WHERE r.dag_run_id = s.run_id
