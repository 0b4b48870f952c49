-- Storing a job costs less: the trigger took a third of an insert's time, most of it for chance and a pattern.

SET LOCAL ROLE shardwheel_migrator;

-- The session's own generator, which the server seeds by strong chance when the session begins, instead of a
-- UUID a job: nobody gains by guessing the number, it only must not come twice for one job. Two draws of 53 bits
-- are mixed into 64.
CREATE OR REPLACE FUNCTION shardwheel.random_number() RETURNS bigint
  LANGUAGE sql VOLATILE PARALLEL RESTRICTED
  AS $$ SELECT coalesce(nullif(hashfloat8extended(random(), (random() * 9007199254740992)::bigint), 0), 1) $$;

CREATE OR REPLACE FUNCTION shardwheel.jobs_before_change() RETURNS trigger LANGUAGE plpgsql AS $$
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
    -- Only a once in the past holds from its own time on. A schedule's text begins with what it is; a once has
    -- none of these words, at most a time zone. The text is looked at last: most jobs have no anchor.
    NEW.effective_from := CASE WHEN NEW.anchor_at IS NULL OR NEW.anchor_at >= now_at OR NEW.schedule ~ '^\{"(cron|every_ms|never)":'
                               THEN now_at ELSE NEW.anchor_at END;
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
