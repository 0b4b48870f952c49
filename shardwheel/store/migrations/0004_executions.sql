-- Executions, a month a partition, and what hangs on them: attempts, overlap slots, skip ranges, work rows.

SET LOCAL ROLE shardwheel_migrator;

CREATE TABLE shardwheel.executions (
  execution_id         uuid NOT NULL,
  tenant_id            text NOT NULL,
  partition            smallint NOT NULL,
  job_id               uuid NOT NULL,
  kind                 smallint NOT NULL,
  origin               text NOT NULL CHECK (origin IN ('schedule', 'settled', 'trigger', 'backfill', 'dag', 'redrive')),
  state                text NOT NULL CHECK (state IN ('queued', 'held', 'running', 'retry_wait', 'succeeded', 'dead', 'cancelled', 'skipped', 'force_completed')),
  reason               text,
  scheduled_at         timestamptz NOT NULL,
  due_at               timestamptz NOT NULL,
  attempt              integer NOT NULL DEFAULT 1 CHECK (attempt > 0),
  failures             integer NOT NULL DEFAULT 0,
  crashes              integer NOT NULL DEFAULT 0,
  schedule_no          bigint NOT NULL DEFAULT 0,
  claim_token          uuid,
  worker               text,
  lease_until          timestamptz,
  timeout_at           timestamptz,
  reported_generation  text,
  reported_partition   integer,
  reported_offset      bigint,
  cancel_requested_at  timestamptz,
  dag_run_id           uuid,
  request_id           uuid,
  params               jsonb,
  checkpoint           jsonb,
  progress             jsonb,
  output               jsonb,
  trace                text,
  created_at           timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  started_at           timestamptz,
  ended_at             timestamptz,
  duration_ms          bigint,
  changed_xid          xid8,
  PRIMARY KEY (execution_id)
) PARTITION BY RANGE (execution_id);

COMMENT ON TABLE shardwheel.executions IS 'One run of one job for one scheduled time. The id is computed from (kind, job, scheduled time), so a second fire of the same meets this primary key. Partitioned by month: an id begins with 48 bits of milliseconds.';
COMMENT ON COLUMN shardwheel.executions.execution_id IS '48 bits scheduled time in ms, 16 bits partition, 64 bits of a hash; the same for all attempts.';
COMMENT ON COLUMN shardwheel.executions.kind IS 'The kind that is hashed into the id: 0 fire, 1 trigger, 2 rerun, 3 redrive, 4 task.';
COMMENT ON COLUMN shardwheel.executions.reason IS 'Why it is held, skipped, cancelled or dead.';
COMMENT ON COLUMN shardwheel.executions.due_at IS 'Fire time; of a waiting execution, when it is to be published (then it moves with each retry).';
COMMENT ON COLUMN shardwheel.executions.attempt IS 'The current attempt while it runs, the next one while it waits. Messages and results of any other change nothing.';
COMMENT ON COLUMN shardwheel.executions.failures IS 'What max_retries limits.';
COMMENT ON COLUMN shardwheel.executions.crashes IS 'Workers that died or vanished with it; two are poison.';
COMMENT ON COLUMN shardwheel.executions.schedule_no IS 'The state of the job''s schedule that made it; 0: not made by a schedule.';
COMMENT ON COLUMN shardwheel.executions.claim_token IS 'Names the claim: with the attempt it fences results, and after a lost reply the worker finds what it got.';
COMMENT ON COLUMN shardwheel.executions.lease_until IS 'While running: the worker is believed alive until then. Extended by heartbeats; not indexed, so that these stay HOT.';
COMMENT ON COLUMN shardwheel.executions.timeout_at IS 'When the current attempt times out, should its worker hang.';
COMMENT ON COLUMN shardwheel.executions.reported_generation IS 'With reported_partition and reported_offset: where in the results topic this attempt''s result stands. The sweep leaves it alone while the results group has not passed that.';
COMMENT ON COLUMN shardwheel.executions.reported_partition IS 'Topic partition of the result.';
COMMENT ON COLUMN shardwheel.executions.reported_offset IS 'Offset of the result.';
COMMENT ON COLUMN shardwheel.executions.cancel_requested_at IS 'Somebody asked a running one to stop; the worker learns it at its heartbeat.';
COMMENT ON COLUMN shardwheel.executions.dag_run_id IS 'The DAG run that it is a task of.';
COMMENT ON COLUMN shardwheel.executions.request_id IS 'The trigger, re-run or redrive that asked for it; hashed into its id.';
COMMENT ON COLUMN shardwheel.executions.params IS 'Override of the job''s params, by a trigger or a fan-out; null: the job''s.';
COMMENT ON COLUMN shardwheel.executions.trace IS 'W3C traceparent of what caused it.';
COMMENT ON COLUMN shardwheel.executions.duration_ms IS 'Of the last attempt, claim to end, as the worker measured it.';
COMMENT ON COLUMN shardwheel.executions.changed_xid IS 'The transaction that made it wait last (by trigger, in states queued and retry_wait): what the feed reads by. Null: it never waited.';

CREATE FUNCTION shardwheel.set_changed_xid() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.changed_xid := pg_current_xact_id();
  RETURN NEW;
END $$;
COMMENT ON FUNCTION shardwheel.set_changed_xid() IS 'Lets the feed see the change, however late its transaction commits.';

-- A claim that runs at once and a result never call it: the condition is looked at first.
CREATE TRIGGER executions_waiting BEFORE INSERT OR UPDATE ON shardwheel.executions
  FOR EACH ROW WHEN (NEW.state IN ('queued', 'retry_wait')) EXECUTE FUNCTION shardwheel.set_changed_xid();

-- Few indexes, since every claim inserts into each that its row belongs to. None holds what a heartbeat
-- writes (lease_until, reported_*, progress, checkpoint): heartbeats stay HOT. The running rows of a partition
-- are few (what its workers hold), so the sweep reads them all and looks at the lease itself.
CREATE INDEX executions_unfinished ON shardwheel.executions (partition, state, job_id)
  WHERE state IN ('queued', 'held', 'running', 'retry_wait');
CREATE INDEX executions_feed ON shardwheel.executions (partition, changed_xid) WHERE state IN ('queued', 'retry_wait');
CREATE INDEX executions_due ON shardwheel.executions (partition, due_at) WHERE state IN ('queued', 'retry_wait');
CREATE INDEX executions_held ON shardwheel.executions (partition, reason, execution_id) WHERE state = 'held';
CREATE INDEX executions_of_job ON shardwheel.executions (job_id, execution_id);
CREATE INDEX executions_list ON shardwheel.executions (tenant_id, execution_id);
CREATE INDEX executions_of_run ON shardwheel.executions (dag_run_id) WHERE dag_run_id IS NOT NULL;
COMMENT ON INDEX shardwheel.executions_unfinished IS 'The sweep''s running rows of a partition; whether a job has anything unfinished; a load''s waiting rows.';
COMMENT ON INDEX shardwheel.executions_feed IS 'A shard reads what waits: partition = ANY(mine) AND changed_xid >= X.';
COMMENT ON INDEX shardwheel.executions_due IS 'The sweep publishes again what is long overdue.';
COMMENT ON INDEX shardwheel.executions_held IS 'The sweep releases what is held for a reason, oldest first.';

CREATE TABLE shardwheel.executions_default PARTITION OF shardwheel.executions DEFAULT WITH (fillfactor = 85);
COMMENT ON TABLE shardwheel.executions_default IS 'Executions of months that have no partition: without it, one odd time would abort its whole batch for ever. make_months moves rows out.';

CREATE FUNCTION shardwheel.id_floor(t timestamptz) RETURNS uuid
  LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
  AS $$ SELECT rpad(lpad(to_hex(shardwheel.ms(t)), 12, '0'), 32, '0')::uuid $$;
COMMENT ON FUNCTION shardwheel.id_floor(timestamptz) IS 'The smallest execution id of that scheduled time: bounds of months and of lists by time.';

CREATE FUNCTION shardwheel.month_of(t timestamptz) RETURNS timestamptz
  LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
  AS $$ SELECT date_trunc('month', t AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' $$;
COMMENT ON FUNCTION shardwheel.month_of(timestamptz) IS 'The first moment of its month, in UTC.';

-- The month's table stands alone while it gets its rows: no trigger fires, so what waits keeps its
-- changed_xid. The caller holds ACCESS EXCLUSIVE on executions: nobody can look a moved row up in the wrong
-- place, nor insert into the default partition by an old plan. Runs as the owner, so that the month is its too.
CREATE FUNCTION shardwheel.make_month(month_at timestamptz) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  month_table CONSTANT text := 'executions_' || to_char(month_at AT TIME ZONE 'UTC', 'YYYY_MM');
  first_id CONSTANT uuid := shardwheel.id_floor(month_at);
  end_id CONSTANT uuid := shardwheel.id_floor((month_at AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
BEGIN
  EXECUTE format('CREATE TABLE shardwheel.%I (LIKE shardwheel.executions INCLUDING ALL) WITH (fillfactor = 85)', month_table);
  EXECUTE format('WITH moved AS (DELETE FROM shardwheel.executions_default WHERE execution_id >= %L AND execution_id < %L RETURNING *)
                  INSERT INTO shardwheel.%I SELECT * FROM moved', first_id, end_id, month_table);
  EXECUTE format('ALTER TABLE shardwheel.executions ATTACH PARTITION shardwheel.%I FOR VALUES FROM (%L) TO (%L)', month_table, first_id, end_id);
  EXECUTE format('COMMENT ON TABLE shardwheel.%I IS %L', month_table, 'Executions scheduled in that month (UTC).');
END $$;
COMMENT ON FUNCTION shardwheel.make_month(timestamptz) IS 'Make one month of executions and move its rows out of the default partition. Called by make_months, under its locks.';

-- Waiting for this lock holds up every claim behind it: so it waits two seconds at most, and whoever keeps
-- the months tries again later. They are made well ahead, and until then the default partition takes the rows.
CREATE FUNCTION shardwheel.make_months(ahead integer, back integer DEFAULT 1) RETURNS text[]
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
  this_month CONSTANT timestamp := shardwheel.month_of(clock_timestamp()) AT TIME ZONE 'UTC';
  missing timestamptz[];
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('shardwheel.make_months', 0));
  SELECT array_agg(m AT TIME ZONE 'UTC' ORDER BY m) INTO missing
    FROM generate_series(this_month - make_interval(months => back), this_month + make_interval(months => ahead), '1 month') AS m
   WHERE to_regclass('shardwheel.executions_' || to_char(m, 'YYYY_MM')) IS NULL;
  IF missing IS NULL THEN
    RETURN '{}';
  END IF;
  LOCK TABLE ONLY shardwheel.executions IN ACCESS EXCLUSIVE MODE;
  PERFORM shardwheel.make_month(m) FROM unnest(missing) AS m;
  RETURN (SELECT array_agg('executions_' || to_char(m AT TIME ZONE 'UTC', 'YYYY_MM') ORDER BY m) FROM unnest(missing) AS m);
END $$;
COMMENT ON FUNCTION shardwheel.make_months(integer, integer) IS 'Make the months of executions that are missing, from `back` months ago to `ahead` months from now; returns their names. Safe at any time, by anyone, twice at once.';

CREATE FUNCTION shardwheel.drop_months(before timestamptz) RETURNS text[]
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
  old_months text[];
  month_table text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('shardwheel.make_months', 0));
  SELECT array_agg(c.relname ORDER BY c.relname) INTO old_months
    FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
   WHERE i.inhparent = 'shardwheel.executions'::regclass AND c.relname ~ '^executions_\d+_\d\d$'
     AND to_timestamp(substr(c.relname, 12), 'YYYY_MM')::timestamp + interval '1 month' <= before AT TIME ZONE 'UTC';
  IF old_months IS NULL THEN
    RETURN '{}';
  END IF;
  LOCK TABLE ONLY shardwheel.executions IN ACCESS EXCLUSIVE MODE;
  FOREACH month_table IN ARRAY old_months LOOP
    EXECUTE format('ALTER TABLE shardwheel.executions DETACH PARTITION shardwheel.%I', month_table);
    EXECUTE format('INSERT INTO shardwheel.executions SELECT * FROM shardwheel.%I
                     WHERE state IN (''queued'', ''held'', ''running'', ''retry_wait'')', month_table);
    EXECUTE format('DROP TABLE shardwheel.%I', month_table);
  END LOOP;
  RETURN old_months;
END $$;
COMMENT ON FUNCTION shardwheel.drop_months(timestamptz) IS 'Retention: drop the months that ended before then; returns their names. What is unfinished is kept, in the default partition.';

CREATE TABLE shardwheel.attempts (
  execution_id  uuid NOT NULL,
  attempt       integer NOT NULL,
  tenant_id     text NOT NULL,
  partition     smallint NOT NULL,
  job_id        uuid NOT NULL,
  outcome       text NOT NULL,
  class         text,
  message       text,
  traceback     text,
  worker        text,
  started_at    timestamptz,
  ended_at      timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  slot_ms       bigint,
  PRIMARY KEY (execution_id, attempt)
);
COMMENT ON TABLE shardwheel.attempts IS 'What became of each attempt. Ids begin with the time, so retention walks the primary key.';
COMMENT ON COLUMN shardwheel.attempts.outcome IS 'succeeded, failed, fatal, timed_out, crashed, released, cancelled: how this attempt ended.';
COMMENT ON COLUMN shardwheel.attempts.class IS 'The error''s class, as the worker reported it.';
COMMENT ON COLUMN shardwheel.attempts.slot_ms IS 'How long it held a worker''s slot.';

CREATE TABLE shardwheel.overlap_slots (
  job_id        uuid PRIMARY KEY,
  tenant_id     text NOT NULL,
  partition     smallint NOT NULL,
  execution_id  uuid NOT NULL,
  scheduled_at  timestamptz NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp())
);
CREATE INDEX overlap_slots_sweep ON shardwheel.overlap_slots (partition);
COMMENT ON TABLE shardwheel.overlap_slots IS 'Which execution of a job with overlap skip or queue may run. The primary key decides: an EXISTS would read an old snapshot and let two run.';

CREATE TABLE shardwheel.skip_ranges (
  job_id      uuid NOT NULL,
  first_at    timestamptz NOT NULL,
  last_at     timestamptz NOT NULL,
  tenant_id   text NOT NULL,
  partition   smallint NOT NULL,
  count       bigint NOT NULL CHECK (count > 0),
  reason      text NOT NULL,
  schedule_no bigint NOT NULL DEFAULT 0,
  created_at  timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  PRIMARY KEY (job_id, first_at, last_at),
  CHECK (first_at <= last_at)
);
CREATE INDEX skip_ranges_age ON shardwheel.skip_ranges (created_at);
COMMENT ON TABLE shardwheel.skip_ranges IS 'Many skipped times in one row. It neither blocks an execution nor is blocked by one; an execution inside it wins.';
COMMENT ON COLUMN shardwheel.skip_ranges.first_at IS 'The first scheduled time of the range; last_at is the last one, included.';
COMMENT ON COLUMN shardwheel.skip_ranges.count IS 'How many scheduled times it holds.';

CREATE TABLE shardwheel.work_rows (
  work_id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id         text NOT NULL,
  partition         smallint NOT NULL,
  job_id            uuid NOT NULL,
  origin            text NOT NULL CHECK (origin IN ('schedule', 'settled', 'backfill')),
  schedule          text NOT NULL,
  schedule_no       bigint NOT NULL DEFAULT 0,
  anchor_at         timestamptz,
  jitter_ms         integer NOT NULL DEFAULT 0,
  first_at          timestamptz NOT NULL,
  last_at           timestamptz NOT NULL,
  cursor_at         timestamptz,
  count             bigint,
  expanded          bigint NOT NULL DEFAULT 0,
  misfire           text,
  rate_per_s        double precision,
  requeue_skipped   boolean NOT NULL DEFAULT false,
  request_id        uuid,
  params            jsonb,
  state             text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'cancelled')),
  created_at        timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  ended_at          timestamptz,
  changed_xid       xid8 NOT NULL,
  CONSTRAINT work_rows_once UNIQUE NULLS NOT DISTINCT (job_id, origin, schedule_no, first_at, last_at, request_id),
  CHECK (first_at <= last_at)
);
CREATE INDEX work_rows_open ON shardwheel.work_rows (partition) WHERE state = 'open';
CREATE TRIGGER work_rows_changed BEFORE INSERT OR UPDATE ON shardwheel.work_rows
  FOR EACH ROW EXECUTE FUNCTION shardwheel.set_changed_xid();
COMMENT ON TABLE shardwheel.work_rows IS 'A span of scheduled times that the partition''s owner, whoever that is then, expands into executions at a limited rate: a large catch-up, the rest of an old schedule, a backfill.';
COMMENT ON CONSTRAINT work_rows_once ON shardwheel.work_rows IS 'The same range message twice makes one row. One with another end makes a second: where they overlap, the executions'' ids are the same.';
COMMENT ON COLUMN shardwheel.work_rows.origin IS 'Origin of the executions that it becomes; schedule: a catch-up.';
COMMENT ON COLUMN shardwheel.work_rows.schedule IS 'The schedule that the span belongs to, with anchor_at and jitter_ms: the job''s own may be another by now.';
COMMENT ON COLUMN shardwheel.work_rows.first_at IS 'The first scheduled time of the span; last_at is the last one, included.';
COMMENT ON COLUMN shardwheel.work_rows.cursor_at IS 'Expanded through this scheduled time; null: not begun.';
COMMENT ON COLUMN shardwheel.work_rows.count IS 'How many times it holds, if known.';
COMMENT ON COLUMN shardwheel.work_rows.expanded IS 'How many times were expanded so far.';
COMMENT ON COLUMN shardwheel.work_rows.misfire IS 'The policy for its times; null: all run.';
COMMENT ON COLUMN shardwheel.work_rows.rate_per_s IS 'Null: the catch-up rate of the settings.';
COMMENT ON COLUMN shardwheel.work_rows.requeue_skipped IS 'A backfill queues skipped executions again, under their ids.';
COMMENT ON COLUMN shardwheel.work_rows.changed_xid IS 'The transaction that changed the row last (by trigger).';
