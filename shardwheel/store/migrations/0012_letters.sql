-- The end of things: who is told of an execution's end, which dead letters still have to be mirrored, and how far
-- what is over was removed.

SET LOCAL ROLE shardwheel_migrator;

-- --- dead letters: the mirror's outbox ---------------------------------------------------------------------

ALTER TABLE shardwheel.dead_letters ADD COLUMN offered_at timestamptz;
COMMENT ON COLUMN shardwheel.dead_letters.offered_at IS 'When somebody last took it to publish it to shardwheel.dead-letters; while published_at is null another may, half a minute later.';

-- --- callbacks: the outbox of webhooks ---------------------------------------------------------------------

ALTER TABLE shardwheel.executions ADD COLUMN IF NOT EXISTS notify boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN shardwheel.executions.notify IS 'Its job had a callback_url when it was claimed: somebody wants to be told of its end.';

CREATE TABLE shardwheel.callbacks (
  callback_id   uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  tenant_id     text NOT NULL,
  partition     smallint NOT NULL,
  execution_id  uuid NOT NULL,
  job_id        uuid NOT NULL,
  url           text NOT NULL,
  host          text NOT NULL,
  body          jsonb NOT NULL,
  state         text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'delivered', 'given_up')),
  tries         integer NOT NULL DEFAULT 0,
  due_at        timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  problem       text,
  created_at    timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  ended_at      timestamptz
) WITH (fillfactor = 70);
CREATE INDEX callbacks_due ON shardwheel.callbacks (host, due_at) WHERE state = 'open';
CREATE INDEX callbacks_of_execution ON shardwheel.callbacks (execution_id);
CREATE INDEX callbacks_age ON shardwheel.callbacks (ended_at) WHERE state <> 'open';
COMMENT ON TABLE shardwheel.callbacks IS 'Who is to be told of an execution''s end: one row an end, written by trigger in the transaction that ends it, delivered at least once.';
COMMENT ON COLUMN shardwheel.callbacks.callback_id IS 'The same in all its tries: the receiver drops repeats by it.';
COMMENT ON COLUMN shardwheel.callbacks.host IS 'Host and port of the url: one receiver that hangs must not hold up the others.';
COMMENT ON COLUMN shardwheel.callbacks.body IS 'What is told: the execution as it ended. It may be retired before the last try.';
COMMENT ON COLUMN shardwheel.callbacks.due_at IS 'When to try next; whoever takes it moves this on, so that another one tries should the first one die.';
COMMENT ON COLUMN shardwheel.callbacks.problem IS 'What went wrong with the last try.';
COMMENT ON INDEX shardwheel.callbacks_due IS 'Takes a few of each receiver.';

GRANT SELECT, INSERT, UPDATE, DELETE ON shardwheel.callbacks TO shardwheel_system;
GRANT SELECT ON shardwheel.callbacks TO shardwheel_api;
ALTER TABLE shardwheel.callbacks ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON shardwheel.callbacks TO shardwheel_api
  USING (tenant_id = current_setting('shardwheel.tenant', true)) WITH CHECK (tenant_id = current_setting('shardwheel.tenant', true));
CREATE POLICY all_tenants ON shardwheel.callbacks TO shardwheel_system USING (true) WITH CHECK (true);

CREATE FUNCTION shardwheel.shown_time(t timestamptz) RETURNS text
  LANGUAGE sql STABLE PARALLEL SAFE STRICT
  RETURN to_char(t AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
COMMENT ON FUNCTION shardwheel.shown_time(timestamptz) IS 'ISO 8601 in UTC with milliseconds, as every answer has it.';

-- As the owner: the API's role ends executions too (it cancels), and writes no callbacks otherwise.
CREATE FUNCTION shardwheel.executions_ended() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO shardwheel.callbacks (tenant_id, partition, execution_id, job_id, url, host, body)
  SELECT NEW.tenant_id, NEW.partition, NEW.execution_id, NEW.job_id, j.callback_url,
         lower(substring(j.callback_url FROM '^[^:]+://([^/?#]*)')),
         jsonb_build_object(
           'version', 1, 'event', 'execution.ended', 'tenant_id', NEW.tenant_id,
           'execution', jsonb_build_object(
             'id', NEW.execution_id, 'job_id', NEW.job_id, 'task', j.task, 'state', NEW.state, 'reason', NEW.reason, 'origin', NEW.origin,
             'scheduled_at', shardwheel.shown_time(NEW.scheduled_at), 'attempt', NEW.attempt, 'failures', NEW.failures,
             'started_at', shardwheel.shown_time(NEW.started_at), 'ended_at', shardwheel.shown_time(NEW.ended_at),
             'duration_ms', NEW.duration_ms, 'progress', NEW.progress, 'output', NEW.output))
    FROM shardwheel.jobs AS j
   WHERE j.job_id = NEW.job_id AND j.callback_url IS NOT NULL;
  RETURN NULL;
END $$;
COMMENT ON FUNCTION shardwheel.executions_ended() IS 'Writes down that somebody is to be told of this end.';

-- By trigger, so that no way out of a run can forget it. The conditions are looked at first: without a
-- callback_url nothing is called, and a heartbeat, which does not set the state, is not even looked at.
CREATE TRIGGER executions_ended_at_once AFTER INSERT ON shardwheel.executions
  FOR EACH ROW WHEN (NEW.notify AND NEW.state IN ('succeeded', 'dead', 'cancelled', 'skipped', 'force_completed'))
  EXECUTE FUNCTION shardwheel.executions_ended();
CREATE TRIGGER executions_ended AFTER UPDATE OF state ON shardwheel.executions
  FOR EACH ROW WHEN (NEW.notify AND NEW.state <> OLD.state AND NEW.state IN ('succeeded', 'dead', 'cancelled', 'skipped', 'force_completed'))
  EXECUTE FUNCTION shardwheel.executions_ended();

-- --- retention --------------------------------------------------------------------------------------------

CREATE TABLE shardwheel.retention (
  singleton        boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  gone_through_ms  bigint NOT NULL DEFAULT 0
);
INSERT INTO shardwheel.retention DEFAULT VALUES;
COMMENT ON TABLE shardwheel.retention IS 'One row. Whoever removes executions holds it locked: one at a time, and never while somebody sets a partition back.';
COMMENT ON COLUMN shardwheel.retention.singleton IS 'Always true: the primary key that allows one row.';
COMMENT ON COLUMN shardwheel.retention.gone_through_ms IS 'Executions with fire times up to here may be gone: fired again, they would run again. So no partition is set back to before it.';
GRANT SELECT, UPDATE ON shardwheel.retention TO shardwheel_system;

CREATE INDEX work_rows_age ON shardwheel.work_rows (ended_at) WHERE state <> 'open';
COMMENT ON INDEX shardwheel.work_rows_age IS 'Retention looks for old ones that are over.';

-- The rows were removed one by one before, each by its own age: a month that still has one stays. Looked at
-- twice, the second time under the lock under which nobody can insert.
CREATE FUNCTION shardwheel.drop_empty_months(before timestamptz) RETURNS text[]
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
  month_table text;
  is_used boolean;
  dropped text[] := '{}';
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('shardwheel.make_months', 0));
  FOR month_table IN
    SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'shardwheel.executions'::regclass AND c.relname ~ '^executions_\d+_\d\d$'
       AND to_timestamp(substr(c.relname, 12), 'YYYY_MM')::timestamp + interval '1 month' <= before AT TIME ZONE 'UTC'
     ORDER BY c.relname
  LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM shardwheel.%I)', month_table) INTO is_used;
    CONTINUE WHEN is_used;
    LOCK TABLE ONLY shardwheel.executions IN ACCESS EXCLUSIVE MODE;
    EXECUTE format('SELECT EXISTS (SELECT FROM shardwheel.%I)', month_table) INTO is_used;
    CONTINUE WHEN is_used;
    EXECUTE format('ALTER TABLE shardwheel.executions DETACH PARTITION shardwheel.%I', month_table);
    EXECUTE format('DROP TABLE shardwheel.%I', month_table);
    dropped := dropped || month_table;
  END LOOP;
  RETURN dropped;
END $$;
COMMENT ON FUNCTION shardwheel.drop_empty_months(timestamptz) IS 'Retention: drop the months that ended before then and hold no row any more; returns their names.';
REVOKE ALL ON FUNCTION shardwheel.drop_empty_months(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION shardwheel.drop_empty_months(timestamptz) TO shardwheel_system;
