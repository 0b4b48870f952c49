-- What running attempts leave word of: log lines. And a cheap way to see who is asked to stop.

SET LOCAL ROLE shardwheel_migrator;

CREATE TABLE shardwheel.execution_logs (
  execution_id  uuid NOT NULL,
  attempt       integer NOT NULL CHECK (attempt > 0),
  first_line    integer NOT NULL CHECK (first_line > 0),
  tenant_id     text NOT NULL,
  partition     smallint NOT NULL,
  count         integer NOT NULL CHECK (count > 0),
  bytes         integer NOT NULL,
  lines         jsonb NOT NULL,
  written_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (execution_id, attempt, first_line)
);
CREATE INDEX execution_logs_age ON shardwheel.execution_logs (written_at);
COMMENT ON TABLE shardwheel.execution_logs IS 'Log lines of executions, several a row. Of one execution the last 64 KiB are kept: whoever writes a row deletes the oldest.';
COMMENT ON COLUMN shardwheel.execution_logs.first_line IS 'Number of its first line; each attempt counts from 1. A gap in the numbers is what was dropped.';
COMMENT ON COLUMN shardwheel.execution_logs.lines IS 'An array of [time in ms, level, text].';
COMMENT ON COLUMN shardwheel.execution_logs.bytes IS 'Of the lines as they were written: what the limit counts.';
COMMENT ON INDEX shardwheel.execution_logs_age IS 'Retention deletes by age.';

GRANT SELECT, INSERT, UPDATE, DELETE ON shardwheel.execution_logs TO shardwheel_system;
GRANT SELECT ON shardwheel.execution_logs TO shardwheel_api;
ALTER TABLE shardwheel.execution_logs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON shardwheel.execution_logs TO shardwheel_api
  USING (tenant_id = current_setting('shardwheel.tenant', true))
  WITH CHECK (tenant_id = current_setting('shardwheel.tenant', true));
CREATE POLICY all_tenants ON shardwheel.execution_logs TO shardwheel_system USING (true) WITH CHECK (true);

-- Nearly empty at all times. A claim sets the worker, a request to stop the time; nothing that ends a run touches
-- either, so settling stays HOT.
CREATE INDEX executions_to_stop ON shardwheel.executions (worker) WHERE cancel_requested_at IS NOT NULL;
COMMENT ON INDEX shardwheel.executions_to_stop IS 'A worker looks every second whether one of its own is asked to stop.';
