-- max_runs becomes a last time, counted from effective_from, which is known only now; in the transaction that
-- made this state of the schedule, so it makes no new one.
UPDATE shardwheel.jobs SET last_at = shardwheel.at(%(last_ms)s) WHERE job_id = %(job_id)s
