-- However many jobs there are, nobody else is at work in here.
SET LOCAL transaction_timeout = 0;
ALTER TABLE shardwheel.jobs DISABLE TRIGGER jobs_before_change;
