-- The database's clock, in whole milliseconds since 1970.
SELECT shardwheel.now_ms()
