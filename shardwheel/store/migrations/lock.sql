-- One migration at a time, and no wait for ever: neither for another migration nor for a table's lock.
SET LOCAL lock_timeout = '60s';
SELECT pg_advisory_xact_lock(hashtextextended('shardwheel.migrate', 0))
