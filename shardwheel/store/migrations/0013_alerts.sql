-- Alerts: what is wrong with the cluster, since when, and who was told of it.

SET LOCAL ROLE shardwheel_migrator;

CREATE TABLE shardwheel.alerts (
  alert_id        uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  rule            text NOT NULL CHECK (rule <> ''),
  subject         text NOT NULL DEFAULT '',
  severity        text NOT NULL CHECK (severity IN ('warning', 'critical')),
  value           double precision NOT NULL,
  sentence        text NOT NULL,
  remedy          text NOT NULL,
  facts           jsonb NOT NULL DEFAULT '{}',
  opened_at       timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  last_seen_at    timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  notified_at     timestamptz,
  resolved_at     timestamptz,
  silenced_until  timestamptz,
  silenced_by     text
);
-- Whoever opens an alert a second time finds the first one: two watchers at once still make one row.
CREATE UNIQUE INDEX alerts_open ON shardwheel.alerts (rule, subject) WHERE resolved_at IS NULL;
CREATE INDEX alerts_list ON shardwheel.alerts (opened_at, alert_id);
CREATE INDEX alerts_age ON shardwheel.alerts (resolved_at) WHERE resolved_at IS NOT NULL;
COMMENT ON TABLE shardwheel.alerts IS 'What is or was wrong with the cluster: one row from its opening to its end. It is about the cluster, not about a tenant or a partition, so it names neither.';
COMMENT ON COLUMN shardwheel.alerts.rule IS 'Which rule of docs/alerts.md.';
COMMENT ON COLUMN shardwheel.alerts.subject IS 'What it is about, where a rule looks at several: a shard, a server. Empty: the cluster.';
COMMENT ON COLUMN shardwheel.alerts.severity IS 'The worst so far: it only rises while the alert is open.';
COMMENT ON COLUMN shardwheel.alerts.value IS 'The figure at the last look that saw it.';
COMMENT ON COLUMN shardwheel.alerts.facts IS 'What the watcher has to know of it after its own restart, and what people may want to see.';
COMMENT ON COLUMN shardwheel.alerts.last_seen_at IS 'The last look that found it so.';
COMMENT ON COLUMN shardwheel.alerts.notified_at IS 'When a receiver was told last; null: nobody was.';
COMMENT ON COLUMN shardwheel.alerts.resolved_at IS 'When it was over; null: it is open.';
COMMENT ON COLUMN shardwheel.alerts.silenced_until IS 'Until then nobody is told of it, nor of the next one of the same rule and subject; that it is over is told.';

CREATE TABLE shardwheel.alert_deliveries (
  alert_id      uuid NOT NULL REFERENCES shardwheel.alerts ON DELETE CASCADE,
  receiver      text NOT NULL,
  told          text CHECK (told IN ('warning', 'critical', 'resolved')),
  told_at       timestamptz,
  tries         integer NOT NULL DEFAULT 0,
  next_try_at   timestamptz,
  error         text,
  PRIMARY KEY (alert_id, receiver)
);
COMMENT ON TABLE shardwheel.alert_deliveries IS 'What each receiver was last told of an alert. What it ought to be told follows from the alert; the difference is still to be delivered, whoever watches then.';
COMMENT ON COLUMN shardwheel.alert_deliveries.receiver IS 'Its kind and a digest of its address, which may hold a secret.';
COMMENT ON COLUMN shardwheel.alert_deliveries.told IS 'The severity that it was told, or that it is over; null: nothing yet.';
COMMENT ON COLUMN shardwheel.alert_deliveries.tries IS 'How often in vain since then.';
COMMENT ON COLUMN shardwheel.alert_deliveries.next_try_at IS 'Not before then: set when a try begins, so that a crash in its middle is followed by another one.';

CREATE TABLE shardwheel.alert_watch (
  singleton  boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  holder     text NOT NULL DEFAULT '',
  until      timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO shardwheel.alert_watch DEFAULT VALUES;
COMMENT ON TABLE shardwheel.alert_watch IS 'One row: which `shardctl alerts` process watches. A second one waits for the end of its lease.';
COMMENT ON COLUMN shardwheel.alert_watch.singleton IS 'Always true: the primary key that allows one row.';
COMMENT ON COLUMN shardwheel.alert_watch.holder IS 'New with every start of the process.';
COMMENT ON COLUMN shardwheel.alert_watch.until IS 'The end of its lease, in database time; renewed at every look.';

CREATE INDEX dag_runs_ended ON shardwheel.dag_runs (ended_at) WHERE ended_at IS NOT NULL;
COMMENT ON INDEX shardwheel.dag_runs_ended IS 'How many of the last hour''s runs succeeded.';

GRANT SELECT, INSERT, UPDATE, DELETE ON shardwheel.alerts, shardwheel.alert_deliveries, shardwheel.alert_watch TO shardwheel_system;
-- To explain an execution is to know whether any worker could run it.
GRANT SELECT ON shardwheel.workers TO shardwheel_api;
-- The API lists alerts and silences them, for whoever may operate the cluster.
GRANT SELECT, UPDATE (silenced_until, silenced_by) ON shardwheel.alerts TO shardwheel_api;
