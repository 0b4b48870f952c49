ALTER TABLE shardwheel.jobs ENABLE TRIGGER jobs_before_change
