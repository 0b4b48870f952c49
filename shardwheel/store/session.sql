-- Sets up a new session in one round trip. A setting that this server does not know (transaction_timeout
-- came with version 17) is left out. Where a site commits asynchronously, we do not: what was acknowledged
-- (a claim, say) would be gone after a crash, and nothing would tell.
SELECT set_config(name, value, false)
FROM unnest(%(names)s::text[], %(values)s::text[]) AS setting(name, value)
WHERE current_setting(name, true) IS NOT NULL
UNION ALL
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off'
