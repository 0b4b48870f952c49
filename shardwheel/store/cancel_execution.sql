-- One that was never claimed has not been asked yet whether somebody is to be told of its end.
UPDATE shardwheel.executions AS x
   SET state = 'cancelled', reason = 'cancelled', ended_at = clock_timestamp(),
       notify = EXISTS (SELECT FROM shardwheel.jobs AS j WHERE j.job_id = x.job_id AND j.callback_url IS NOT NULL)
 WHERE execution_id = %(execution_id)s AND tenant_id = %(tenant_id)s AND state IN ('queued', 'retry_wait', 'held')
