-- Task types, DAGs, dead letters, and what the API remembers: idempotency keys and the audit.

SET LOCAL ROLE shardwheel_migrator;

CREATE TABLE shardwheel.task_types (
  tenant_id           text NOT NULL CHECK (tenant_id <> ''),
  task                text NOT NULL,
  paused              boolean NOT NULL DEFAULT false,
  paused_at           timestamptz,
  paused_by           text,
  max_running         integer CHECK (max_running > 0),
  rate_per_s          double precision CHECK (rate_per_s > 0),
  burst               integer CHECK (burst > 0),
  breaker_open_until  timestamptz,
  defaults            jsonb NOT NULL DEFAULT '{}',
  created_at          timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  updated_at          timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  PRIMARY KEY (tenant_id, task)
);
COMMENT ON TABLE shardwheel.task_types IS 'What holds for all jobs of one task. A task without a row is not paused and has no limits. The claim locks rows FOR SHARE: nothing that a claim counts is stored here.';
COMMENT ON COLUMN shardwheel.task_types.max_running IS 'How many may run at once; null: no limit.';
COMMENT ON COLUMN shardwheel.task_types.rate_per_s IS 'How many may start a second, with burst; null: no limit.';
COMMENT ON COLUMN shardwheel.task_types.breaker_open_until IS 'Its dependency fails: hold until then.';
COMMENT ON COLUMN shardwheel.task_types.defaults IS 'A job''s execution fields, where the job does not say: pool, timeout, retries, ….';

CREATE TABLE shardwheel.dag_versions (
  dag_id      uuid NOT NULL,
  version     integer NOT NULL CHECK (version > 0),
  tenant_id   text NOT NULL,
  partition   smallint NOT NULL,
  policy      text NOT NULL DEFAULT 'fail_fast' CHECK (policy IN ('fail_fast', 'continue', 'retry')),
  sla_ms      bigint CHECK (sla_ms > 0),
  definition  jsonb NOT NULL DEFAULT '{}',
  created_at  timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  PRIMARY KEY (dag_id, version)
);
COMMENT ON TABLE shardwheel.dag_versions IS 'The shapes of a DAG: a run keeps the one that it began with. dag_id is the DAG''s job, or the scheduled job that is the root itself.';
COMMENT ON COLUMN shardwheel.dag_versions.sla_ms IS 'How long a run may take, from its scheduled time.';
COMMENT ON COLUMN shardwheel.dag_versions.definition IS 'As posted, for people and for export; dag_edges decides.';

CREATE TABLE shardwheel.dag_edges (
  dag_id     uuid NOT NULL,
  version    integer NOT NULL,
  child_id   uuid NOT NULL,
  parent_id  uuid NOT NULL,
  tenant_id  text NOT NULL,
  partition  smallint NOT NULL,
  PRIMARY KEY (dag_id, version, child_id, parent_id),
  CHECK (child_id <> parent_id)
);
CREATE INDEX dag_edges_children ON shardwheel.dag_edges (dag_id, version, parent_id);
COMMENT ON TABLE shardwheel.dag_edges IS 'parent_id and child_id are jobs of one DAG: the child runs after the parent. A task without an edge to a parent is a root.';

CREATE TABLE shardwheel.dag_runs (
  dag_run_id   uuid PRIMARY KEY,
  tenant_id    text NOT NULL,
  partition    smallint NOT NULL,
  dag_id       uuid NOT NULL,
  version      integer NOT NULL,
  state        text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'succeeded', 'failed', 'partial', 'cancelled')),
  reason       text,
  origin       text NOT NULL CHECK (origin IN ('schedule', 'settled', 'trigger', 'backfill', 'redrive')),
  request_id   uuid,
  scheduled_at timestamptz NOT NULL,
  sla_at       timestamptz,
  unfinished   integer NOT NULL DEFAULT 0,
  params       jsonb,
  started_at   timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  ended_at     timestamptz
);
CREATE INDEX dag_runs_of_dag ON shardwheel.dag_runs (dag_id, dag_run_id);
CREATE INDEX dag_runs_running ON shardwheel.dag_runs (partition) WHERE state = 'running';
COMMENT ON TABLE shardwheel.dag_runs IS 'One run of a DAG; it has no lease, its tasks have. Every terminal transition of a task locks its run FOR UPDATE first and looks at its state: a cancelled run queues nobody.';
COMMENT ON COLUMN shardwheel.dag_runs.dag_run_id IS 'The execution id of the DAG''s fire (of the root''s execution, where a scheduled job is the root): computable, so a repeated fire makes no second run.';
COMMENT ON COLUMN shardwheel.dag_runs.version IS 'The shape that it began with (dag_versions).';
COMMENT ON COLUMN shardwheel.dag_runs.origin IS 'trigger: somebody wished it, so its tasks run although the DAG is paused.';
COMMENT ON COLUMN shardwheel.dag_runs.scheduled_at IS 'Its tasks inherit it.';
COMMENT ON COLUMN shardwheel.dag_runs.unfinished IS 'Tasks that are not over yet: the run ends at 0.';

CREATE TABLE shardwheel.dag_counters (
  dag_run_id  uuid NOT NULL,
  child_id    uuid NOT NULL,
  tenant_id   text NOT NULL,
  partition   smallint NOT NULL,
  pending     integer NOT NULL,
  failed      integer NOT NULL DEFAULT 0,
  skipped     integer NOT NULL DEFAULT 0,
  PRIMARY KEY (dag_run_id, child_id)
) WITH (fillfactor = 80);
COMMENT ON TABLE shardwheel.dag_counters IS 'Readiness of a child in a run: made lazily as in-degree - n by the first batch that settles n of its parents; ready at 0. (Counting the parents instead lost 264 of 300 racing joins.)';
COMMENT ON COLUMN shardwheel.dag_counters.pending IS 'Parents that are not over yet.';
COMMENT ON COLUMN shardwheel.dag_counters.failed IS 'Parents that ended without success: upstream_failed.';
COMMENT ON COLUMN shardwheel.dag_counters.skipped IS 'Parents that were skipped: upstream_skipped.';

CREATE TABLE shardwheel.dead_letters (
  dead_letter_id  uuid PRIMARY KEY,
  tenant_id       text NOT NULL,
  partition       smallint NOT NULL,
  execution_id    uuid NOT NULL,
  job_id          uuid NOT NULL,
  dag_run_id      uuid,
  task            text NOT NULL,
  params          jsonb NOT NULL,
  job             jsonb NOT NULL,
  origin          text NOT NULL,
  scheduled_at    timestamptz NOT NULL,
  attempt         integer NOT NULL,
  failures        integer NOT NULL,
  crashes         integer NOT NULL,
  reason          text NOT NULL,
  class           text,
  message         text,
  traceback       text,
  worker          text,
  attempts        jsonb NOT NULL DEFAULT '[]',
  checkpoint      jsonb,
  progress        jsonb,
  trace           text,
  state           text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'redriven', 'discarded')),
  redriven_as     uuid,
  resolved_by     text,
  resolved_at     timestamptz,
  published_at    timestamptz,
  created_at      timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  UNIQUE (execution_id, attempt)
);
CREATE INDEX dead_letters_list ON shardwheel.dead_letters (tenant_id, created_at, dead_letter_id);
CREATE INDEX dead_letters_open ON shardwheel.dead_letters (tenant_id, task) WHERE state = 'open';
CREATE INDEX dead_letters_unpublished ON shardwheel.dead_letters (partition) WHERE published_at IS NULL;
CREATE INDEX dead_letters_age ON shardwheel.dead_letters (created_at);
COMMENT ON TABLE shardwheel.dead_letters IS 'Executions that were given up, with all that is needed to understand and replay them; stored before anyone is alerted.';
COMMENT ON COLUMN shardwheel.dead_letters.params IS 'What the handler was given (secrets by reference only).';
COMMENT ON COLUMN shardwheel.dead_letters.job IS 'The job''s row as it was then: it may be edited or gone when somebody looks.';
COMMENT ON COLUMN shardwheel.dead_letters.reason IS 'Why it was given up: retries_exhausted, fatal, poison, timed_out.';
COMMENT ON COLUMN shardwheel.dead_letters.attempts IS 'All attempts, oldest first: the attempts rows may be retired earlier.';
COMMENT ON COLUMN shardwheel.dead_letters.redriven_as IS 'The execution that a redrive made.';
COMMENT ON COLUMN shardwheel.dead_letters.resolved_by IS 'Who redrove or discarded it.';
COMMENT ON COLUMN shardwheel.dead_letters.published_at IS 'When it was published to shardwheel.dead-letters; null: still to do.';

CREATE TABLE shardwheel.idempotency_keys (
  tenant_id   text NOT NULL CHECK (tenant_id <> ''),
  key         text NOT NULL,
  body_hash   bytea NOT NULL,
  answer      jsonb,
  created_at  timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  expires_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, key)
);
CREATE INDEX idempotency_keys_age ON shardwheel.idempotency_keys (expires_at);
COMMENT ON TABLE shardwheel.idempotency_keys IS 'The same key again gets the same answer; with another body it is refused. Stored in the transaction that it protects.';
COMMENT ON COLUMN shardwheel.idempotency_keys.body_hash IS 'Hash of the request''s canonical body.';

CREATE TABLE shardwheel.audit (
  audit_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id    text NOT NULL CHECK (tenant_id <> ''),
  at           timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  actor        text NOT NULL,
  role         text NOT NULL DEFAULT '',
  action       text NOT NULL,
  object_kind  text NOT NULL,
  object_id    text NOT NULL,
  details      jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_list ON shardwheel.audit (tenant_id, audit_id);
CREATE INDEX audit_age ON shardwheel.audit (at);
COMMENT ON TABLE shardwheel.audit IS 'Who did what to what, written in the transaction that did it.';
COMMENT ON COLUMN shardwheel.audit.actor IS 'The token''s subject, or the service.';
COMMENT ON COLUMN shardwheel.audit.action IS 'job.create, job.pause, dead_letter.redrive, ….';
