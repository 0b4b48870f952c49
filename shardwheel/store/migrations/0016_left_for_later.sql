-- What is left for later: ends of DAG tasks that their runs have not been told of, held executions of deleted jobs.

SET LOCAL ROLE shardwheel_migrator;

CREATE TABLE shardwheel.dag_put_off (
  dag_run_id  uuid NOT NULL,
  task_id     uuid NOT NULL,
  item_no     integer NOT NULL DEFAULT -1,
  tenant_id   text NOT NULL,
  partition   smallint NOT NULL,
  state       text NOT NULL,
  reason      text,
  put_off_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (dag_run_id, task_id, item_no)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE shardwheel.dag_put_off IS 'Tasks of DAG runs that are over and that their runs have not been told of: written by a settling while results lag, in its transaction and without a lock on the run; taken out by whoever holds the run''s lock and tells it. To its run such a task has not ended yet. Mostly empty.';
COMMENT ON COLUMN shardwheel.dag_put_off.item_no IS 'Which item of a fan-out; -1: the task itself.';
COMMENT ON COLUMN shardwheel.dag_put_off.state IS 'How it ended; with the reason.';
COMMENT ON COLUMN shardwheel.dag_put_off.put_off_at IS 'What was put off for long is told by the owner''s sweep, however far results lag.';

CREATE TABLE shardwheel.deleted_held (
  job_id      uuid PRIMARY KEY,
  tenant_id   text NOT NULL,
  partition   smallint NOT NULL,
  deleted_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE shardwheel.deleted_held IS 'Deleted jobs of which more was held than deleting could end at once: the owner''s sweep goes on with it. Mostly empty.';

GRANT SELECT, INSERT, UPDATE, DELETE ON shardwheel.dag_put_off, shardwheel.deleted_held TO shardwheel_system;
GRANT SELECT, DELETE ON shardwheel.dag_put_off TO shardwheel_api;
GRANT SELECT, INSERT ON shardwheel.deleted_held TO shardwheel_api;

DO $$
DECLARE
  table_name text;
BEGIN
  FOREACH table_name IN ARRAY ARRAY['dag_put_off', 'deleted_held'] LOOP
    EXECUTE format('ALTER TABLE shardwheel.%I ENABLE ROW LEVEL SECURITY', table_name);
    EXECUTE format('CREATE POLICY own_tenant ON shardwheel.%I TO shardwheel_api
                    USING (tenant_id = current_setting(''shardwheel.tenant'', true))
                    WITH CHECK (tenant_id = current_setting(''shardwheel.tenant'', true))', table_name);
    EXECUTE format('CREATE POLICY all_tenants ON shardwheel.%I TO shardwheel_system USING (true) WITH CHECK (true)', table_name);
  END LOOP;
END $$;
