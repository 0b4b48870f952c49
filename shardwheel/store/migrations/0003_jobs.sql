-- Jobs, and the trigger that names each state of a job's schedule.

SET LOCAL ROLE shardwheel_migrator;

CREATE TABLE shardwheel.jobs (
  job_id             uuid PRIMARY KEY,
  tenant_id          text NOT NULL CHECK (tenant_id <> ''),
  partition          smallint NOT NULL CHECK (partition BETWEEN 0 AND 255),
  kind               text NOT NULL DEFAULT 'job' CHECK (kind IN ('job', 'dag', 'task')),
  dag_id             uuid,
  task_key           text,
  name               text NOT NULL DEFAULT '',
  task               text NOT NULL DEFAULT '',
  params             jsonb NOT NULL DEFAULT '{}',
  tags               text[] NOT NULL DEFAULT '{}',
  state              text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'completed', 'deleted')),
  schedule           text NOT NULL DEFAULT '{"never":true}',
  anchor_at          timestamptz CHECK (anchor_at >= timestamptz 'epoch'),
  start_at           timestamptz,
  end_at             timestamptz,
  last_at            timestamptz,
  max_runs           integer CHECK (max_runs > 0),
  jitter_ms          integer NOT NULL DEFAULT 0 CHECK (jitter_ms >= 0),
  pool               text NOT NULL DEFAULT 'short' CHECK (pool IN ('short', 'medium', 'long')),
  priority           smallint NOT NULL DEFAULT 2 CHECK (priority BETWEEN 0 AND 3),
  timeout_ms         bigint NOT NULL DEFAULT 60000 CHECK (timeout_ms > 0),
  max_retries        integer NOT NULL DEFAULT 3 CHECK (max_retries >= 0),
  backoff            jsonb NOT NULL DEFAULT '{}',
  misfire            text NOT NULL DEFAULT 'fire_last' CHECK (misfire IN ('fire_all', 'fire_last', 'skip')),
  misfire_grace_ms   bigint NOT NULL DEFAULT 60000 CHECK (misfire_grace_ms >= 0),
  catchup_window_ms  bigint NOT NULL DEFAULT 3600000 CHECK (catchup_window_ms >= 0),
  overlap            text NOT NULL DEFAULT 'allow' CHECK (overlap IN ('allow', 'skip', 'queue')),
  not_after_ms       bigint CHECK (not_after_ms >= 0),
  callback_url       text,
  version            bigint NOT NULL DEFAULT 1,
  schedule_no        bigint NOT NULL CHECK (schedule_no <> 0),
  schedule_xid       xid8 NOT NULL,
  changed_xid        xid8 NOT NULL,
  effective_from     timestamptz NOT NULL,
  created_at         timestamptz NOT NULL,
  updated_at         timestamptz NOT NULL,
  deleted_at         timestamptz,
  CHECK ((kind = 'task') = (dag_id IS NOT NULL AND dag_id <> job_id))
) WITH (fillfactor = 90);

COMMENT ON TABLE shardwheel.jobs IS 'What the user stored: jobs, DAGs (kind dag) and their tasks. The claim locks rows here FOR SHARE and never writes them. Deleted ones stay as tombstones until retention.';
COMMENT ON COLUMN shardwheel.jobs.partition IS 'Where it is scheduled; part of every execution id, so it never changes.';
COMMENT ON COLUMN shardwheel.jobs.dag_id IS 'The DAG (or the scheduled root job) that a task belongs to; it lives in the same partition. Null for kinds job and dag.';
COMMENT ON COLUMN shardwheel.jobs.task_key IS 'A task''s key inside its DAG.';
COMMENT ON COLUMN shardwheel.jobs.task IS 'The task type: which handler runs it. Empty for a DAG, which has no handler.';
COMMENT ON COLUMN shardwheel.jobs.schedule IS 'The canonical text of the schedule, as schedule.py writes it: {"cron":…}, {"every_ms":…}, {"never":true} for none, {} for a once (each with further keys, such as time_zone). Jobs with the same text share one object in a shard''s memory; what differs from job to job (anchor_at, start_at, …) is beside it.';
COMMENT ON COLUMN shardwheel.jobs.anchor_at IS 'every: the time that its times are counted from. once: its time.';
COMMENT ON COLUMN shardwheel.jobs.last_at IS 'The last scheduled time there may be: the smallest of end_at, a once''s time, and the max_runs-th time from effective_from. Null: endless. Completion looks at it.';
COMMENT ON COLUMN shardwheel.jobs.max_runs IS 'As the user said it; the tick looks at last_at only.';
COMMENT ON COLUMN shardwheel.jobs.jitter_ms IS 'Upper bound of the deterministic jitter: fire time = scheduled time + hash(job, t) × min(jitter, next(t) − t).';
COMMENT ON COLUMN shardwheel.jobs.priority IS '0 critical, 1 high, 2 normal, 3 low.';
COMMENT ON COLUMN shardwheel.jobs.max_retries IS 'How many failures are followed by a retry; crashes of workers do not count.';
COMMENT ON COLUMN shardwheel.jobs.backoff IS '{"kind", "base_s", "factor", "max_s", "jitter"}; an absent key has its default.';
COMMENT ON COLUMN shardwheel.jobs.misfire IS 'What becomes of times whose fire time is more than misfire_grace_ms past, within catchup_window_ms.';
COMMENT ON COLUMN shardwheel.jobs.overlap IS 'What a run does while another of the same job runs.';
COMMENT ON COLUMN shardwheel.jobs.not_after_ms IS 'Counted from the fire time: later than this a claim skips it as expired. Null: never.';
COMMENT ON COLUMN shardwheel.jobs.version IS 'Grows by one with each change (by trigger): a shard applies a change once.';
COMMENT ON COLUMN shardwheel.jobs.schedule_no IS 'Names one state of the schedule: 64 random bits, never 0 (by trigger). Random, since a counter could be reused after a fail-over that lost commits.';
COMMENT ON COLUMN shardwheel.jobs.schedule_xid IS 'The transaction that made this state of the schedule (by trigger).';
COMMENT ON COLUMN shardwheel.jobs.changed_xid IS 'The transaction that changed the row last (by trigger): what the feed reads by.';
COMMENT ON COLUMN shardwheel.jobs.effective_from IS 'This state of the schedule holds for scheduled times from here on (by trigger, read from the clock after the row lock). Whole milliseconds.';

-- A new state of the schedule: create, and a change of schedule, anchor_at, start_at, end_at, last_at,
-- max_runs, jitter_ms or state. Two exceptions:
-- * active -> completed. Completed jobs still run fires that come late (replays, a once settled early); with
--   a new number those would find no schedule of theirs and die. Nothing fires afterwards anyway.
-- * last_at alone, in the transaction that made this state. max_runs is counted from effective_from, which
--   the writer learns only from RETURNING: it then stores last_at, and nobody has seen the row in between.
CREATE FUNCTION shardwheel.jobs_before_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  this_xid CONSTANT xid8 := pg_current_xact_id();
  now_at timestamptz;
  reschedule boolean;
BEGIN
  -- In a BEFORE trigger of an UPDATE the row is locked already: whatever it waited for is over. now() or a
  -- clock read in the statement itself would be older than claims that this change waited for.
  now_at := date_trunc('milliseconds', clock_timestamp());
  IF TG_OP = 'INSERT' THEN
    NEW.version := 1;
    NEW.created_at := now_at;
    NEW.deleted_at := NULL;
    NEW.schedule_no := shardwheel.random_number();
    NEW.schedule_xid := this_xid;
    -- A schedule's text begins with what it is; a once has none of these, at most a time zone.
    NEW.effective_from := CASE WHEN NEW.schedule ~ '^\{"(cron|every_ms|never)":' THEN now_at ELSE least(now_at, NEW.anchor_at) END;
  ELSE
    IF (NEW.job_id, NEW.tenant_id, NEW.partition, NEW.kind) IS DISTINCT FROM (OLD.job_id, OLD.tenant_id, OLD.partition, OLD.kind) THEN
      RAISE EXCEPTION 'job %: its id, tenant, partition and kind never change', OLD.job_id USING ERRCODE = 'restrict_violation';
    END IF;
    reschedule := (NEW.schedule, NEW.anchor_at, NEW.start_at, NEW.end_at, NEW.max_runs, NEW.jitter_ms)
                    IS DISTINCT FROM (OLD.schedule, OLD.anchor_at, OLD.start_at, OLD.end_at, OLD.max_runs, OLD.jitter_ms)
      OR (NEW.last_at IS DISTINCT FROM OLD.last_at AND OLD.schedule_xid <> this_xid)
      OR (NEW.state <> OLD.state AND NOT (OLD.state = 'active' AND NEW.state = 'completed'));
    NEW.version := OLD.version + 1;
    NEW.created_at := OLD.created_at;
    NEW.deleted_at := CASE WHEN NEW.state <> 'deleted' THEN NULL WHEN OLD.state = 'deleted' THEN OLD.deleted_at ELSE now_at END;
    NEW.schedule_no := CASE WHEN reschedule THEN shardwheel.random_number() ELSE OLD.schedule_no END;
    NEW.schedule_xid := CASE WHEN reschedule THEN this_xid ELSE OLD.schedule_xid END;
    NEW.effective_from := CASE WHEN reschedule THEN greatest(now_at, OLD.effective_from) ELSE OLD.effective_from END;
  END IF;
  NEW.changed_xid := this_xid;
  NEW.updated_at := now_at;
  RETURN NEW;
END $$;
COMMENT ON FUNCTION shardwheel.jobs_before_change() IS 'Sets what the firing protocol relies on (changed_xid, schedule_xid, schedule_no, effective_from), so that nobody can forget or forge it.';

CREATE TRIGGER jobs_before_change BEFORE INSERT OR UPDATE ON shardwheel.jobs
  FOR EACH ROW EXECUTE FUNCTION shardwheel.jobs_before_change();

CREATE INDEX jobs_feed ON shardwheel.jobs (partition, changed_xid);
CREATE INDEX jobs_load ON shardwheel.jobs (partition, job_id) WHERE state = 'active';
CREATE INDEX jobs_ending ON shardwheel.jobs (partition, last_at) WHERE state = 'active' AND last_at IS NOT NULL;
CREATE INDEX jobs_list ON shardwheel.jobs (tenant_id, job_id);
CREATE INDEX jobs_of_dag ON shardwheel.jobs (dag_id) WHERE dag_id IS NOT NULL;
CREATE INDEX jobs_deleted ON shardwheel.jobs (deleted_at) WHERE state = 'deleted';
COMMENT ON INDEX shardwheel.jobs_feed IS 'A shard reads its changes: partition = ANY(mine) AND changed_xid >= X.';
COMMENT ON INDEX shardwheel.jobs_load IS 'A new owner loads a partition''s active jobs, paged by job_id.';
COMMENT ON INDEX shardwheel.jobs_ending IS 'The sweep looks for jobs to complete.';
COMMENT ON INDEX shardwheel.jobs_list IS 'The API lists a tenant''s jobs, paged by job_id.';
COMMENT ON INDEX shardwheel.jobs_deleted IS 'Retention looks for old tombstones.';
