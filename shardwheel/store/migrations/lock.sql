-- One migration at a time, and no wait for ever: neither for another migration nor for a table's lock. The
-- server's limit on transactions is for the services; a large file may take longer. (Before version 17 there is none.)
SELECT set_config(name, value, true)
FROM (VALUES ('lock_timeout', '30s'), ('transaction_timeout', '15min')) AS setting(name, value)
WHERE current_setting(name, true) IS NOT NULL;
SELECT pg_advisory_xact_lock(hashtextextended('shardwheel.migrate', 0))
