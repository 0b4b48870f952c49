-- One at a time removes, and none while somebody sets a partition back: nobody waits here, the other one does it.
SELECT 1 FROM shardwheel.retention FOR UPDATE SKIP LOCKED
