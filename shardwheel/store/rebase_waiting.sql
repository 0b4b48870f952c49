-- By the trigger: what waits was changed just now.
UPDATE shardwheel.executions SET reason = reason
 WHERE pending IN ('queued', 'retry_wait') AND partition = ANY (%(partitions)s::smallint[])
