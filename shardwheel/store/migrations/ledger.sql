-- What was applied. Run under the advisory lock before anything else; all of it may exist already.
CREATE SCHEMA IF NOT EXISTS shardwheel;
COMMENT ON SCHEMA shardwheel IS
  'Shardwheel, a sharded job scheduler: what people said (jobs) and what happened (executions).';
CREATE TABLE IF NOT EXISTS shardwheel.migrations (
  number      integer PRIMARY KEY,
  name        text NOT NULL,
  sha256      text NOT NULL,
  applied_at  timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp())
);
COMMENT ON TABLE shardwheel.migrations IS 'Which numbered files of shardwheel/store/migrations were applied, and what was in them.';
COMMENT ON COLUMN shardwheel.migrations.sha256 IS 'Of the file''s bytes: an applied file may not change any more.';
