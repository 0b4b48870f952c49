-- What plan_by_key said does not hold any more.
SELECT set_config('plan_cache_mode', 'auto', true), set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true),
       set_config('enable_mergejoin', 'on', true), set_config('enable_partition_pruning', 'on', true)
