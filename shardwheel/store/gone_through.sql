-- How far executions may be gone; held until this transaction ends, so that no further ones go.
SELECT gone_through_ms FROM shardwheel.retention FOR SHARE
