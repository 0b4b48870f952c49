-- What the tests of real processes keep beside the tables: people's changes, each noted in its own transaction,
-- and every change of an execution, with the state of its job as the transaction saw it.
CREATE SCHEMA planted;

CREATE TABLE planted.notes (
  job_id   uuid NOT NULL,
  version  bigint NOT NULL,
  job      bytea NOT NULL,
  PRIMARY KEY (job_id, version)
);

CREATE TABLE planted.cancels (execution_id uuid PRIMARY KEY);

CREATE TABLE planted.changes (
  number        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  execution_id  uuid NOT NULL,
  job_id        uuid NOT NULL,
  origin        text NOT NULL,
  job_state     text NOT NULL,
  old_state     text,
  old_attempt   integer,
  old_token     uuid,
  new_state     text NOT NULL,
  new_attempt   integer NOT NULL,
  new_token     uuid
);

CREATE FUNCTION planted.note_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO planted.changes (execution_id, job_id, origin, job_state, old_state, old_attempt, old_token, new_state, new_attempt, new_token)
  SELECT NEW.execution_id, NEW.job_id, NEW.origin, job.state, OLD.state, OLD.attempt, OLD.claim_token, NEW.state, NEW.attempt, NEW.claim_token
    FROM shardwheel.jobs AS job WHERE job.job_id = NEW.job_id;
  RETURN NULL;
END $$;

CREATE TRIGGER planted_insert AFTER INSERT ON shardwheel.executions
  FOR EACH ROW EXECUTE FUNCTION planted.note_change();

-- Heartbeats change none of these.
CREATE TRIGGER planted_update AFTER UPDATE ON shardwheel.executions
  FOR EACH ROW WHEN ((OLD.state, OLD.attempt, OLD.claim_token) IS DISTINCT FROM (NEW.state, NEW.attempt, NEW.claim_token))
  EXECUTE FUNCTION planted.note_change();
