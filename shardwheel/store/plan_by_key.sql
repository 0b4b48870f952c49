-- Until the transaction ends: one plan a session for what is prepared, and no way to rows but by their keys. Such a plan leaves out
-- months only as it runs; when it waits for a row that somebody changes meanwhile, PostgreSQL 18.4 then crashes, with all sessions. So it
-- looks into the index of every month.
SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_partition_pruning', 'off', true)
