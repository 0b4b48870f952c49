-- What may not run yet: limits, breakers and budgets of task types, slots of jobs that must not overlap, and who
-- has handlers. Lock order: jobs, task types, executions, then everything here, which nobody waits for: slots are
-- taken with SKIP LOCKED, and a job's slot by its primary key.

SET LOCAL ROLE shardwheel_migrator;

-- --- executions -------------------------------------------------------------------------------------------

ALTER TABLE shardwheel.executions
  ADD COLUMN slotted boolean NOT NULL DEFAULT false,
  ADD COLUMN notify boolean NOT NULL DEFAULT false,
  ADD COLUMN held_for text;
COMMENT ON COLUMN shardwheel.executions.slotted IS 'The claim took a slot of its job or of its task for it: a trigger frees it.';
COMMENT ON COLUMN shardwheel.executions.notify IS 'Its job had a callback_url when it was claimed: somebody wants to be told of its end.';
COMMENT ON COLUMN shardwheel.executions.held_for IS 'While it is held (by trigger): whose hold it is, the task type, or the job for the reasons paused and overlap. All that wait for the same are next to each other in an index.';

CREATE OR REPLACE FUNCTION shardwheel.executions_before_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.pending := CASE WHEN NEW.state IN ('queued', 'retry_wait', 'held') THEN NEW.state END;
  NEW.held_for := NULL;
  IF NEW.pending = 'held' THEN
    NEW.held_for := CASE WHEN NEW.reason IN ('paused', 'overlap') THEN NEW.job_id::text
                         ELSE (SELECT j.task FROM shardwheel.jobs AS j WHERE j.job_id = NEW.job_id) END;
  ELSIF NEW.pending IS NOT NULL THEN
    NEW.changed_xid := pg_current_xact_id();
  END IF;
  RETURN NEW;
END $$;
COMMENT ON FUNCTION shardwheel.executions_before_change() IS 'Lets indexes find what waits or is held, and for whom, and the feed see what waits, however late its transaction commits.';

UPDATE shardwheel.executions SET reason = reason WHERE pending = 'held';  -- by the trigger: for whom

CREATE INDEX executions_held_for ON shardwheel.executions (reason, tenant_id, held_for, execution_id) INCLUDE (partition) WHERE pending = 'held';
COMMENT ON INDEX shardwheel.executions_held_for IS 'The sweep steps from hold to hold without reading what each holds, and releases the oldest first.';

-- A hundred thousand that are held for the same cost this one step.
CREATE FUNCTION shardwheel.holds(of_reason text, after_tenant text, after_held_for text, most integer)
  RETURNS TABLE (tenant_id text, held_for text, partition smallint) LANGUAGE plpgsql STABLE AS $$
BEGIN
  FOR step IN 1..most LOOP
    SELECT x.tenant_id, x.held_for, x.partition INTO tenant_id, held_for, partition
      FROM shardwheel.executions AS x
     WHERE x.pending = 'held' AND x.reason = of_reason AND (x.tenant_id, x.held_for) > (after_tenant, after_held_for)
     ORDER BY x.tenant_id, x.held_for LIMIT 1;
    EXIT WHEN NOT FOUND;
    RETURN NEXT;
    after_tenant := tenant_id;
    after_held_for := held_for;
  END LOOP;
END $$;
COMMENT ON FUNCTION shardwheel.holds(text, text, text, integer) IS 'Who holds something for this reason, in order, with the partition of one that is held: task types, or jobs for the reasons paused and overlap.';

-- What ended is looked at by pages: with the job's id, so that a page can begin between two of one time.
CREATE INDEX jobs_over ON shardwheel.jobs (partition, last_at, job_id) WHERE state = 'active' AND last_at IS NOT NULL;
COMMENT ON INDEX shardwheel.jobs_over IS 'The sweep looks for jobs to complete, a page at a time.';
DROP INDEX shardwheel.jobs_ending;

-- --- task types -------------------------------------------------------------------------------------------

ALTER TABLE shardwheel.task_types ADD COLUMN breaker boolean NOT NULL DEFAULT true;
COMMENT ON COLUMN shardwheel.task_types.breaker IS 'Whether many failures open its breaker.';
COMMENT ON COLUMN shardwheel.task_types.breaker_open_until IS 'Not used: task_breakers has it, since whoever settles may not write here (it would deadlock with claims).';

CREATE TABLE shardwheel.task_slots (
  tenant_id     text NOT NULL CHECK (tenant_id <> ''),
  task          text NOT NULL,
  slot_no       integer NOT NULL CHECK (slot_no >= 0),
  execution_id  uuid,
  PRIMARY KEY (tenant_id, task, slot_no)
) WITH (fillfactor = 70);
CREATE INDEX task_slots_taken ON shardwheel.task_slots (execution_id) WHERE execution_id IS NOT NULL;
CREATE INDEX task_slots_free ON shardwheel.task_slots (tenant_id, task, slot_no) WHERE execution_id IS NULL;
COMMENT ON TABLE shardwheel.task_slots IS 'The right to run now: as many rows as a task type may run at once, numbered from 1. Number 0 is the one probe of a breaker that is no longer open and not closed yet. A counter instead would be one row that all claims wait for.';
COMMENT ON COLUMN shardwheel.task_slots.execution_id IS 'Who runs in it; null: free.';

CREATE TABLE shardwheel.task_budgets (
  tenant_id    text NOT NULL CHECK (tenant_id <> ''),
  task         text NOT NULL,
  tokens       double precision NOT NULL,
  refilled_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (tenant_id, task)
) WITH (fillfactor = 50);
COMMENT ON TABLE shardwheel.task_budgets IS 'The token bucket of a task type with a rate limit: one for all workers.';
COMMENT ON COLUMN shardwheel.task_budgets.tokens IS 'How many could start at refilled_at; since then rate_per_s more a second, up to burst.';

CREATE TABLE shardwheel.task_breakers (
  tenant_id   text NOT NULL CHECK (tenant_id <> ''),
  task        text NOT NULL,
  open_until  timestamptz,
  opened_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  closed_at   timestamptz,
  PRIMARY KEY (tenant_id, task)
);
COMMENT ON TABLE shardwheel.task_breakers IS 'Task types whose runs failed too often. Open until then; afterwards one probe at a time, until a run tells how it is.';
COMMENT ON COLUMN shardwheel.task_breakers.open_until IS 'Null: closed.';
COMMENT ON COLUMN shardwheel.task_breakers.closed_at IS 'When it closed last: what was counted before counts no more.';

CREATE TABLE shardwheel.task_tallies (
  tenant_id  text NOT NULL CHECK (tenant_id <> ''),
  task       text NOT NULL,
  since      timestamptz NOT NULL,
  lane       smallint NOT NULL,
  runs       bigint NOT NULL,
  failures   bigint NOT NULL,
  firsts     bigint NOT NULL,
  retries    bigint NOT NULL,
  PRIMARY KEY (tenant_id, task, since, lane)
);
CREATE INDEX task_tallies_age ON shardwheel.task_tallies (since);
COMMENT ON TABLE shardwheel.task_tallies IS 'How runs ended, in spans of 30 s, kept for some minutes: breakers and retry budgets look here. Each result processor adds up for a second and then writes.';
COMMENT ON COLUMN shardwheel.task_tallies.lane IS 'Result processors write to rows of their own, so that none waits for another.';
COMMENT ON COLUMN shardwheel.task_tallies.firsts IS 'First attempts among the runs; retries: how many got another attempt.';

-- --- workers ----------------------------------------------------------------------------------------------

CREATE TABLE shardwheel.workers (
  worker_id   text PRIMARY KEY,
  pool        text NOT NULL,
  tasks       text[] NOT NULL,
  slots       integer NOT NULL,
  address     text NOT NULL DEFAULT '',
  started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE shardwheel.workers IS 'Who runs handlers, as each worker says of itself every few seconds: an execution without a handler is held until somebody has it.';
COMMENT ON COLUMN shardwheel.workers.tasks IS 'The task types it has handlers for.';

-- --- taking slots: called by the claim, which has locked what it claims ------------------------------------

CREATE FUNCTION shardwheel.take_tokens(of_tenant text, of_task text, per_s double precision, burst integer, most integer) RETURNS integer
  LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now_at CONSTANT timestamptz := clock_timestamp();
  there double precision;
BEGIN
  SELECT least(burst, b.tokens + greatest(0, extract(epoch FROM now_at - b.refilled_at)) * per_s) INTO there
    FROM shardwheel.task_budgets AS b WHERE b.tenant_id = of_tenant AND b.task = of_task
     FOR UPDATE;
  UPDATE shardwheel.task_budgets AS b SET tokens = there - least(floor(there), most), refilled_at = now_at
   WHERE b.tenant_id = of_tenant AND b.task = of_task;
  RETURN coalesce(least(floor(there), most), most);
END $$;
COMMENT ON FUNCTION shardwheel.take_tokens(text, text, double precision, integer, integer) IS 'How many of `most` the task''s budget allows now; they are taken from it.';

CREATE FUNCTION shardwheel.admit(of_tenant text, of_task text, wanted uuid[]) RETURNS TABLE (execution_id uuid, ruling text)
  LANGUAGE plpgsql VOLATILE ROWS 100 AS $$
DECLARE
  limits shardwheel.task_types;
  probing CONSTANT boolean := EXISTS (SELECT FROM shardwheel.task_breakers AS b
                                       WHERE b.tenant_id = of_tenant AND b.task = of_task AND b.open_until IS NOT NULL);
  room integer := cardinality(wanted);
  granted integer;
  slots integer[] := '{}';
  probes integer[] := '{}';
  refusal text := '';
BEGIN
  SELECT * INTO limits FROM shardwheel.task_types AS t WHERE t.tenant_id = of_tenant AND t.task = of_task;
  IF limits.max_running IS NOT NULL THEN
    slots := ARRAY(SELECT s.slot_no FROM shardwheel.task_slots AS s
                    WHERE s.tenant_id = of_tenant AND s.task = of_task AND s.execution_id IS NULL AND s.slot_no BETWEEN 1 AND limits.max_running
                    ORDER BY s.slot_no LIMIT room
                      FOR UPDATE SKIP LOCKED);
    room := cardinality(slots);
    refusal := 'concurrency';
  END IF;
  IF probing AND room > 0 THEN  -- It counts among those that may run at once: what ran before goes on meanwhile.
    probes := ARRAY(SELECT s.slot_no FROM shardwheel.task_slots AS s
                     WHERE s.tenant_id = of_tenant AND s.task = of_task AND s.execution_id IS NULL AND s.slot_no = 0
                       FOR UPDATE SKIP LOCKED);
    room := cardinality(probes);
    refusal := 'breaker_open';
  END IF;
  IF limits.rate_per_s IS NOT NULL AND room > 0 THEN
    granted := shardwheel.take_tokens(of_tenant, of_task, limits.rate_per_s, limits.burst, room);
    IF granted < room THEN
      room := granted;
      refusal := 'rate_limit';
    END IF;
  END IF;
  UPDATE shardwheel.task_slots AS s SET execution_id = wanted[g.place]
    FROM (SELECT slot_no, place FROM unnest(slots[1:room]) WITH ORDINALITY AS n (slot_no, place)
           UNION ALL SELECT slot_no, 1 FROM unnest(probes[1:room]) AS n (slot_no)) AS g
   WHERE s.tenant_id = of_tenant AND s.task = of_task AND s.slot_no = g.slot_no;
  RETURN QUERY
  SELECT w.execution_id, CASE WHEN w.place <= room THEN 'running:' ELSE 'held:' || refusal END
    FROM unnest(wanted) WITH ORDINALITY AS w (execution_id, place);
END $$;
COMMENT ON FUNCTION shardwheel.admit(text, text, uuid[]) IS 'Which of these executions of a task type with limits may run now, the first ones first, and why the others are held. Whoever runs has a slot, if the type has slots; a probe has its own besides.';

-- Key order, so that no two claims wait for each other; inserting waits for whoever is just giving a slot back.
CREATE FUNCTION shardwheel.take_slots(tenants text[], partitions smallint[], jobs uuid[], policies text[], tasks text[], begun boolean[], ids uuid[])
  RETURNS TABLE (execution_id uuid, ruling text) LANGUAGE plpgsql VOLATILE ROWS 100 AS $$
BEGIN
  INSERT INTO shardwheel.overlap_slots (job_id, tenant_id, partition, execution_id, scheduled_at)
  SELECT DISTINCT ON (w.job_id) w.job_id, w.tenant_id, w.partition, w.execution_id, clock_timestamp()
    FROM unnest(tenants, partitions, jobs, policies, ids) AS w (tenant_id, partition, job_id, overlap, execution_id)
   WHERE w.overlap <> 'allow'
   ORDER BY w.job_id, w.execution_id
  ON CONFLICT (job_id) DO NOTHING;
  RETURN QUERY
  WITH wanted AS MATERIALIZED (
    SELECT w.tenant_id, w.overlap, w.task, w.began, w.id, w.overlap = 'allow' OR s.job_id IS NOT NULL AS goes_on
      FROM unnest(tenants, jobs, policies, tasks, begun, ids) AS w (tenant_id, job_id, overlap, task, began, id)
      LEFT JOIN shardwheel.overlap_slots AS s ON s.job_id = w.job_id AND s.execution_id = w.id
  )
  SELECT w.id, CASE WHEN w.overlap = 'skip' AND NOT w.began THEN 'skipped:overlap' ELSE 'held:overlap' END FROM wanted AS w WHERE NOT w.goes_on
   UNION ALL
  SELECT a.execution_id, a.ruling
    FROM (SELECT w.tenant_id, w.task, array_agg(w.id ORDER BY w.id) AS task_ids
            FROM wanted AS w WHERE w.goes_on AND w.task IS NOT NULL
           GROUP BY w.tenant_id, w.task ORDER BY w.tenant_id, w.task) AS g
   CROSS JOIN LATERAL shardwheel.admit(g.tenant_id, g.task, g.task_ids) AS a;
END $$;
COMMENT ON FUNCTION shardwheel.take_slots(text[], smallint[], uuid[], text[], text[], boolean[], uuid[]) IS 'Which executions, of jobs that must not overlap or of task types with limits (tasks: null, no limits), may not run now, and why. Of a job the oldest comes first, unless one has the slot already.';

CREATE FUNCTION shardwheel.give_back(of_jobs uuid[], of_executions uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  me CONSTANT xid := pg_current_xact_id()::xid;
BEGIN
  UPDATE shardwheel.task_slots AS s SET execution_id = NULL WHERE s.execution_id = ANY (of_executions) AND s.xmin = me;
  DELETE FROM shardwheel.overlap_slots AS s WHERE s.job_id = ANY (of_jobs) AND s.execution_id = ANY (of_executions) AND s.xmin = me;
END $$;
COMMENT ON FUNCTION shardwheel.give_back(uuid[], uuid[]) IS 'Free what this transaction has taken for executions that another claim has: only those slots, since the other claim has taken some too, which run or were freed by now.';

-- --- freeing slots: whoever ends a run, and however --------------------------------------------------------

-- As the owner, since the API cancels. The next one of a job that queues gets the slot itself, not the chance of it:
-- a fire that comes at this moment would be first. A row that somebody holds is passed over: the sweep finds it.
CREATE FUNCTION shardwheel.executions_freed() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF OLD.state = 'running' THEN
    UPDATE shardwheel.task_slots AS s SET execution_id = NULL WHERE s.execution_id = NEW.execution_id;
  END IF;
  IF NEW.state IN ('queued', 'retry_wait', 'held', 'running') THEN
    RETURN NULL;
  END IF;
  DELETE FROM shardwheel.overlap_slots AS s WHERE s.job_id = NEW.job_id AND s.execution_id = NEW.execution_id;
  IF FOUND THEN
    PERFORM shardwheel.hand_on_job_slot(NEW.job_id);
  END IF;
  RETURN NULL;
END $$;
COMMENT ON FUNCTION shardwheel.executions_freed() IS 'Gives back what the claim took for an execution: a task''s slot when it stops running, its job''s when it is over.';

CREATE FUNCTION shardwheel.hand_on_job_slot(of_job uuid) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  next_id uuid;
BEGIN
  SELECT x.execution_id INTO next_id
    FROM shardwheel.executions AS x
   WHERE x.pending = 'held' AND x.reason = 'overlap' AND x.held_for = of_job::text
     AND x.tenant_id = (SELECT j.tenant_id FROM shardwheel.jobs AS j WHERE j.job_id = of_job)
   ORDER BY x.execution_id LIMIT 1
     FOR UPDATE SKIP LOCKED;
  IF next_id IS NULL THEN
    RETURN false;
  END IF;
  INSERT INTO shardwheel.overlap_slots (job_id, tenant_id, partition, execution_id, scheduled_at)
  SELECT x.job_id, x.tenant_id, x.partition, x.execution_id, x.scheduled_at
    FROM shardwheel.executions AS x WHERE x.execution_id = next_id
  ON CONFLICT (job_id) DO NOTHING;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE shardwheel.executions AS x SET state = 'queued', reason = NULL, slotted = true WHERE x.execution_id = next_id;
  RETURN true;
END $$;
COMMENT ON FUNCTION shardwheel.hand_on_job_slot(uuid) IS 'Give a job''s free slot to the oldest of its executions that is held for it, and let that one go on. False: nobody waits, or the slot is taken.';

CREATE TRIGGER executions_freed AFTER UPDATE ON shardwheel.executions
  FOR EACH ROW WHEN (OLD.slotted AND OLD.state <> NEW.state AND (OLD.state = 'running' OR NEW.state NOT IN ('queued', 'retry_wait', 'held', 'running')))
  EXECUTE FUNCTION shardwheel.executions_freed();

-- --- who may do what --------------------------------------------------------------------------------------

GRANT SELECT, INSERT, UPDATE, DELETE ON
  shardwheel.task_slots, shardwheel.task_budgets, shardwheel.task_breakers, shardwheel.task_tallies, shardwheel.workers
  TO shardwheel_system;
GRANT SELECT, INSERT, UPDATE, DELETE ON shardwheel.task_slots, shardwheel.task_budgets, shardwheel.task_breakers TO shardwheel_api;
REVOKE ALL ON FUNCTION shardwheel.hand_on_job_slot(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION shardwheel.hand_on_job_slot(uuid) TO shardwheel_system;

DO $$
DECLARE
  table_name text;
BEGIN
  FOREACH table_name IN ARRAY ARRAY['task_slots', 'task_budgets', 'task_breakers', 'task_tallies'] LOOP
    EXECUTE format('ALTER TABLE shardwheel.%I ENABLE ROW LEVEL SECURITY', table_name);
    EXECUTE format('CREATE POLICY own_tenant ON shardwheel.%I TO shardwheel_api
                    USING (tenant_id = current_setting(''shardwheel.tenant'', true))
                    WITH CHECK (tenant_id = current_setting(''shardwheel.tenant'', true))', table_name);
    EXECUTE format('CREATE POLICY all_tenants ON shardwheel.%I TO shardwheel_system USING (true) WITH CHECK (true)', table_name);
  END LOOP;
END $$;
