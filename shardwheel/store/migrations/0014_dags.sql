-- DAGs as they run: the tasks of each version, how far each run is, and fan-outs.

SET LOCAL ROLE shardwheel_migrator;

-- --- definitions ------------------------------------------------------------------------------------------

CREATE TABLE shardwheel.dag_tasks (
  dag_id     uuid NOT NULL,
  version    integer NOT NULL,
  task_id    uuid NOT NULL,
  tenant_id  text NOT NULL,
  partition  smallint NOT NULL,
  task_key   text NOT NULL CHECK (task_key <> ''),
  fan_out    boolean NOT NULL DEFAULT false,
  in_degree  integer NOT NULL DEFAULT 0 CHECK (in_degree >= 0),
  PRIMARY KEY (dag_id, version, task_id),
  UNIQUE (dag_id, version, task_key)
);
COMMENT ON TABLE shardwheel.dag_tasks IS 'The tasks of a DAG''s version. A task whose definition did not change is the same job in many versions.';
COMMENT ON COLUMN shardwheel.dag_tasks.task_id IS 'Its job.';
COMMENT ON COLUMN shardwheel.dag_tasks.fan_out IS 'It runs once for each item of its one parent''s output.';
COMMENT ON COLUMN shardwheel.dag_tasks.in_degree IS 'How many parents it has in this version (dag_edges); 0: a root, or the root of a run itself.';

-- Which messages of a claim are of tasks, whose DAG is to be locked too: a look at few pages where there are few tasks.
CREATE INDEX jobs_tasks ON shardwheel.jobs (job_id) INCLUDE (dag_id) WHERE kind = 'task';
COMMENT ON INDEX shardwheel.jobs_tasks IS 'The claim looks for the DAGs of what it claims.';

-- --- runs -------------------------------------------------------------------------------------------------

ALTER TABLE shardwheel.dag_runs
  ADD COLUMN succeeded integer NOT NULL DEFAULT 0,
  ADD COLUMN failed integer NOT NULL DEFAULT 0,
  ADD COLUMN skipped integer NOT NULL DEFAULT 0,
  ADD COLUMN rounds integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN shardwheel.dag_runs.succeeded IS 'Tasks that ended so, or were completed by hand. With failed, skipped and unfinished: all tasks of its version.';
COMMENT ON COLUMN shardwheel.dag_runs.failed IS 'Tasks that died or were cancelled.';
COMMENT ON COLUMN shardwheel.dag_runs.skipped IS 'Tasks that were skipped, for whatever reason.';
COMMENT ON COLUMN shardwheel.dag_runs.rounds IS 'How often the policy retry let its dead tasks run again.';
COMMENT ON COLUMN shardwheel.dag_runs.reason IS 'failed_fast: a task failed, and what had not begun was skipped. Else why the run ended so.';

CREATE TABLE shardwheel.dag_fans (
  dag_run_id    uuid NOT NULL,
  task_id       uuid NOT NULL,
  tenant_id     text NOT NULL,
  partition     smallint NOT NULL,
  items         integer NOT NULL CHECK (items >= 0),
  open_items    integer NOT NULL,
  failed_items  integer NOT NULL DEFAULT 0,
  PRIMARY KEY (dag_run_id, task_id)
) WITH (fillfactor = 80);
COMMENT ON TABLE shardwheel.dag_fans IS 'A task that runs once per item, in a run: the task itself is an execution that runs without a worker until open_items is 0.';
COMMENT ON COLUMN shardwheel.dag_fans.open_items IS 'Items that are not over yet.';
COMMENT ON COLUMN shardwheel.dag_fans.failed_items IS 'Items that died or were cancelled: one is enough to fail the task.';

-- --- executions -------------------------------------------------------------------------------------------

ALTER TABLE shardwheel.executions ADD COLUMN item_no integer CHECK (item_no >= 0);
COMMENT ON COLUMN shardwheel.executions.item_no IS 'Which item of a fan-out it is, from 0; null for everything else, the fan-out itself included.';
COMMENT ON COLUMN shardwheel.executions.held_for IS 'While it is held (by trigger): whose hold it is, the task type, or for the reasons paused and overlap the job (of a DAG''s task: the DAG). All that wait for the same are next to each other in an index.';

DROP INDEX shardwheel.executions_of_run;
CREATE INDEX executions_of_run ON shardwheel.executions (dag_run_id, job_id, item_no) WHERE dag_run_id IS NOT NULL;
COMMENT ON INDEX shardwheel.executions_of_run IS 'The tasks of a run; a task''s items in their order.';

CREATE OR REPLACE FUNCTION shardwheel.executions_before_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.pending := CASE WHEN NEW.state IN ('queued', 'retry_wait', 'held') THEN NEW.state END;
  NEW.held_for := NULL;
  IF NEW.pending = 'held' THEN
    NEW.held_for := (SELECT CASE WHEN NEW.reason IN ('paused', 'overlap') THEN coalesce(j.dag_id, j.job_id)::text ELSE j.task END
                       FROM shardwheel.jobs AS j WHERE j.job_id = NEW.job_id);
  ELSIF NEW.pending IS NOT NULL THEN
    NEW.changed_xid := pg_current_xact_id();
  END IF;
  RETURN NEW;
END $$;

-- --- who may do what --------------------------------------------------------------------------------------

GRANT SELECT, INSERT, UPDATE, DELETE ON shardwheel.dag_tasks, shardwheel.dag_fans TO shardwheel_system;
GRANT SELECT, INSERT ON shardwheel.dag_tasks TO shardwheel_api;
GRANT SELECT, INSERT, UPDATE ON shardwheel.dag_fans TO shardwheel_api;

DO $$
DECLARE
  table_name text;
BEGIN
  FOREACH table_name IN ARRAY ARRAY['dag_tasks', 'dag_fans'] LOOP
    EXECUTE format('ALTER TABLE shardwheel.%I ENABLE ROW LEVEL SECURITY', table_name);
    EXECUTE format('CREATE POLICY own_tenant ON shardwheel.%I TO shardwheel_api
                    USING (tenant_id = current_setting(''shardwheel.tenant'', true))
                    WITH CHECK (tenant_id = current_setting(''shardwheel.tenant'', true))', table_name);
    EXECUTE format('CREATE POLICY all_tenants ON shardwheel.%I TO shardwheel_system USING (true) WITH CHECK (true)', table_name);
  END LOOP;
END $$;
