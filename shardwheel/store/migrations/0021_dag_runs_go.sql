-- What a run keeps of its DAG's version, and what retention needs to remove runs and versions.

SET LOCAL ROLE shardwheel_migrator;

ALTER TABLE shardwheel.dag_versions
  ADD COLUMN max_retries integer CHECK (max_retries >= 0),
  ADD COLUMN backoff     jsonb,
  ADD COLUMN tasks       integer CHECK (tasks > 0);
COMMENT ON COLUMN shardwheel.dag_versions.max_retries IS 'Rounds of the policy retry; null: the DAG''s own (a version from before there was this column).';
COMMENT ON COLUMN shardwheel.dag_versions.backoff IS 'Between those rounds; null: the DAG''s own.';
COMMENT ON COLUMN shardwheel.dag_versions.tasks IS 'How many it has, so that no run counts them; null: a version from before there was this column.';

CREATE INDEX dag_runs_of_version ON shardwheel.dag_runs (dag_id, version);
COMMENT ON INDEX shardwheel.dag_runs_of_version IS 'Retention removes versions that no run has.';
