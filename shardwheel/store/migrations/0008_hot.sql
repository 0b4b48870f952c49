-- Settling stays HOT: no index of executions names `state` any more. What waits or is held is found by a column
-- of its own, what runs by the claims that made it run.

SET LOCAL ROLE shardwheel_migrator;

-- --- what waits or is held --------------------------------------------------------------------------------

ALTER TABLE shardwheel.executions ADD COLUMN pending text;
COMMENT ON COLUMN shardwheel.executions.pending IS 'Its state again while it waits or is held (by trigger); null while it runs and afterwards. Indexes name this instead of state: so the update that ends a run touches none of them.';

UPDATE shardwheel.executions SET pending = state WHERE state IN ('queued', 'retry_wait', 'held');

CREATE FUNCTION shardwheel.executions_before_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.pending := CASE WHEN NEW.state IN ('queued', 'retry_wait', 'held') THEN NEW.state END;
  IF NEW.pending <> 'held' THEN
    NEW.changed_xid := pg_current_xact_id();
  END IF;
  RETURN NEW;
END $$;
COMMENT ON FUNCTION shardwheel.executions_before_change() IS 'Lets indexes find what waits or is held, and the feed see what waits, however late its transaction commits.';

-- A claim that runs at once and a result never call it: the conditions are looked at first.
DROP TRIGGER executions_waiting ON shardwheel.executions;
CREATE TRIGGER executions_before_insert BEFORE INSERT ON shardwheel.executions
  FOR EACH ROW WHEN (NEW.state IN ('queued', 'retry_wait', 'held')) EXECUTE FUNCTION shardwheel.executions_before_change();
CREATE TRIGGER executions_before_update BEFORE UPDATE ON shardwheel.executions
  FOR EACH ROW WHEN (NEW.state IN ('queued', 'retry_wait', 'held') OR OLD.pending IS NOT NULL)
  EXECUTE FUNCTION shardwheel.executions_before_change();

DROP INDEX shardwheel.executions_unfinished, shardwheel.executions_feed, shardwheel.executions_due, shardwheel.executions_held;
CREATE INDEX executions_feed ON shardwheel.executions (partition, changed_xid) WHERE pending IN ('queued', 'retry_wait');
CREATE INDEX executions_due ON shardwheel.executions (partition, due_at) WHERE pending IN ('queued', 'retry_wait');
CREATE INDEX executions_held ON shardwheel.executions (partition, reason, execution_id) WHERE pending = 'held';
CREATE INDEX executions_pending_of_job ON shardwheel.executions (job_id) WHERE pending IS NOT NULL;
COMMENT ON INDEX shardwheel.executions_feed IS 'A shard reads what waits: partition = ANY(mine) AND changed_xid >= X; a load reads all of it.';
COMMENT ON INDEX shardwheel.executions_due IS 'The sweep publishes again what is long overdue.';
COMMENT ON INDEX shardwheel.executions_held IS 'The sweep releases what is held for a reason, oldest first.';
COMMENT ON INDEX shardwheel.executions_pending_of_job IS 'Whether a job has anything that waits or is held.';

CREATE OR REPLACE VIEW shardwheel.waiting_entries WITH (security_invoker = true) AS
SELECT uuid_send(x.execution_id) AS execution_id, uuid_send(x.job_id) AS job_id, x.partition, x.attempt, shardwheel.ms(x.due_at) AS due_ms,
       shardwheel.ms(x.scheduled_at) AS scheduled_ms, j.pool, j.priority, x.changed_xid::text::bigint AS changed_xid_number,
       x.changed_xid
  FROM shardwheel.executions AS x
  JOIN shardwheel.jobs AS j USING (job_id)
 WHERE x.pending IN ('queued', 'retry_wait');

-- --- what runs --------------------------------------------------------------------------------------------

CREATE TABLE shardwheel.claims (
  claim_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  partition      smallint NOT NULL,
  execution_ids  uuid[] NOT NULL,
  claimed_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE shardwheel.claims IS 'What was made to run together: every running execution is named by a row here. The sweep deletes those of which nothing runs any more. A claim spans partitions and tenants, so a row has no tenant.';
COMMENT ON COLUMN shardwheel.claims.partition IS 'Of one of its executions: the owner of this partition clears the row away.';
COMMENT ON COLUMN shardwheel.claims.execution_ids IS 'Those that this claim made run; they may have ended since.';
GRANT SELECT, UPDATE, DELETE ON shardwheel.claims TO shardwheel_system;

CREATE FUNCTION shardwheel.partition_of(execution_id uuid) RETURNS integer
  LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
  RETURN get_byte(uuid_send(execution_id), 6) * 256 + get_byte(uuid_send(execution_id), 7);
COMMENT ON FUNCTION shardwheel.partition_of(uuid) IS 'The partition that an execution''s id names.';

CREATE VIEW shardwheel.claimed_ids WITH (security_invoker = true) AS
SELECT i.execution_id, shardwheel.partition_of(i.execution_id) AS partition
  FROM shardwheel.claims AS c CROSS JOIN LATERAL unnest(c.execution_ids) AS i (execution_id);
COMMENT ON VIEW shardwheel.claimed_ids IS 'All that may be running: the sweep looks these up by their ids.';
GRANT SELECT ON shardwheel.claimed_ids TO shardwheel_system;

-- By trigger, so that nobody can forget: an execution that runs and is not named here would never be missed.
-- As the owner, since the API's role changes executions too and has no business here.
CREATE FUNCTION shardwheel.executions_inserted() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO shardwheel.claims (partition, execution_ids)
  SELECT min(partition), array_agg(execution_id) FROM changed WHERE state = 'running' HAVING count(*) > 0;
  RETURN NULL;
END $$;
COMMENT ON FUNCTION shardwheel.executions_inserted() IS 'Names what a statement made run.';

CREATE FUNCTION shardwheel.executions_updated() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO shardwheel.claims (partition, execution_ids)
  SELECT min(c.partition), array_agg(c.execution_id) FROM changed AS c JOIN former AS f USING (execution_id)
   WHERE c.state = 'running' AND f.state <> 'running' HAVING count(*) > 0;
  RETURN NULL;
END $$;
COMMENT ON FUNCTION shardwheel.executions_updated() IS 'Names what a statement made run.';

CREATE TRIGGER executions_inserted AFTER INSERT ON shardwheel.executions
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION shardwheel.executions_inserted();
CREATE TRIGGER executions_updated AFTER UPDATE ON shardwheel.executions
  REFERENCING OLD TABLE AS former NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION shardwheel.executions_updated();

INSERT INTO shardwheel.claims (partition, execution_ids)
SELECT partition, array_agg(execution_id) FROM shardwheel.executions WHERE state = 'running' GROUP BY partition;

-- --- room -------------------------------------------------------------------------------------------------

-- A HOT update needs room on its page for the row's second version, and all rows of a page are mostly settled by
-- one statement: half of each page. (The versions that ended are pruned, but that room is not inserted into again.)
CREATE OR REPLACE FUNCTION shardwheel.make_month(month_at timestamptz) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  month_table CONSTANT text := 'executions_' || to_char(month_at AT TIME ZONE 'UTC', 'YYYY_MM');
  first_id CONSTANT uuid := shardwheel.id_floor(month_at);
  end_id CONSTANT uuid := shardwheel.id_floor((month_at AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
BEGIN
  EXECUTE format('CREATE TABLE shardwheel.%I (LIKE shardwheel.executions INCLUDING ALL) WITH (fillfactor = 50)', month_table);
  EXECUTE format('WITH moved AS (DELETE FROM shardwheel.executions_default WHERE execution_id >= %L AND execution_id < %L RETURNING *)
                  INSERT INTO shardwheel.%I SELECT * FROM moved', first_id, end_id, month_table);
  EXECUTE format('ALTER TABLE shardwheel.executions ATTACH PARTITION shardwheel.%I FOR VALUES FROM (%L) TO (%L)', month_table, first_id, end_id);
  EXECUTE format('COMMENT ON TABLE shardwheel.%I IS %L', month_table, 'Executions scheduled in that month (UTC).');
END $$;

DO $$
DECLARE
  month_table regclass;
BEGIN
  FOR month_table IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'shardwheel.executions'::regclass LOOP
    EXECUTE format('ALTER TABLE %s SET (fillfactor = 50)', month_table);
  END LOOP;
END $$;
