-- The ground: times, random numbers, who we are, who the tenants are, how far each partition was fired.
-- Every name is written with its schema: nothing here depends on a caller's search_path.

SET LOCAL ROLE shardwheel_migrator;

-- Both are made of immutable functions only, so that the planner inlines them. (extract() of a timestamptz
-- and timestamptz + interval are merely stable: they look at the session's time zone.)
CREATE FUNCTION shardwheel.ms(t timestamptz) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
  AS $$ SELECT floor(extract(epoch FROM (t - timestamptz 'epoch')) * 1000)::bigint $$;
COMMENT ON FUNCTION shardwheel.ms(timestamptz) IS 'Whole milliseconds since 1970, rounded down.';

CREATE FUNCTION shardwheel.at(ms bigint) RETURNS timestamptz
  LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
  AS $$ SELECT (timestamp 'epoch' + ms * interval '1 millisecond') AT TIME ZONE 'UTC' $$;
COMMENT ON FUNCTION shardwheel.at(bigint) IS 'The time that is so many milliseconds after 1970.';

CREATE FUNCTION shardwheel.now_ms() RETURNS bigint
  LANGUAGE sql VOLATILE PARALLEL SAFE
  AS $$ SELECT shardwheel.ms(clock_timestamp()) $$;
COMMENT ON FUNCTION shardwheel.now_ms() IS 'The database clock, the one authority, read now (not at the transaction''s start).';

-- Of a version 4 UUID the first 4 and the last 12 hexadecimal digits are all chance (the fixed bits are between).
CREATE FUNCTION shardwheel.random_number() RETURNS bigint
  LANGUAGE plpgsql VOLATILE PARALLEL SAFE
  AS $$
DECLARE
  chance CONSTANT text := gen_random_uuid()::text;
BEGIN
  RETURN coalesce(nullif(('x' || left(chance, 4) || right(chance, 12))::bit(64)::bigint, 0), 1);
END $$;
COMMENT ON FUNCTION shardwheel.random_number() IS '64 random bits, never 0 (a message with 0 names no schedule).';

CREATE TABLE shardwheel.cluster (
  singleton         boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  name              text NOT NULL CHECK (name <> ''),
  partitions        smallint NOT NULL DEFAULT 256 CHECK (partitions = 256),
  topic_partitions  integer NOT NULL CHECK (topic_partitions > 0),
  format            smallint NOT NULL DEFAULT 1,
  created_at        timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp())
);
COMMENT ON TABLE shardwheel.cluster IS 'One row, written by the first service that starts: what may never change in a cluster''s life.';
COMMENT ON COLUMN shardwheel.cluster.singleton IS 'Always true: the primary key that allows one row.';
COMMENT ON COLUMN shardwheel.cluster.name IS 'The <cluster> of etcd''s keys /shardwheel/<cluster>/.';
COMMENT ON COLUMN shardwheel.cluster.partitions IS 'P: fixed, since it is part of every execution id.';
COMMENT ON COLUMN shardwheel.cluster.topic_partitions IS 'n: partition p is published to topic partition p mod n; the claim floor relies on it.';
COMMENT ON COLUMN shardwheel.cluster.format IS 'Format version of the messages that this cluster writes.';

CREATE TABLE shardwheel.tenants (
  tenant_id   text PRIMARY KEY CHECK (tenant_id <> ''),
  state       text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'suspended')),
  tier        text NOT NULL DEFAULT 'standard' CHECK (tier IN ('free', 'standard', 'pro', 'enterprise')),
  limits      jsonb NOT NULL DEFAULT '{}',
  created_at  timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  updated_at  timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp())
);
COMMENT ON TABLE shardwheel.tenants IS 'Who the jobs belong to. No table points here by a foreign key: every job''s creation would lock its tenant''s row.';
COMMENT ON COLUMN shardwheel.tenants.limits IS 'Quotas by name; an absent one is unlimited.';

CREATE TABLE shardwheel.partitions (
  partition          smallint PRIMARY KEY CHECK (partition BETWEEN 0 AND 255),
  epoch              bigint NOT NULL DEFAULT 0,
  owner              text NOT NULL DEFAULT '',
  fired_through_ms   bigint NOT NULL DEFAULT 0,
  horizon_xid        xid8 NOT NULL DEFAULT '0',
  floor_ms           bigint NOT NULL DEFAULT 0,
  floor_xid          xid8 NOT NULL DEFAULT '0',
  kafka_generation   text NOT NULL DEFAULT '',
  timeline           integer NOT NULL DEFAULT 0,
  system_identifier  bigint NOT NULL DEFAULT 0,
  taken_at           timestamptz,
  floor_at           timestamptz,
  updated_at         timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp())
) WITH (fillfactor = 50);
INSERT INTO shardwheel.partitions (partition) SELECT generate_series(0, 255);
COMMENT ON TABLE shardwheel.partitions IS 'One row a partition: who may store its watermark, and how far it was fired and claimed. Updated about once a second: no further index, much free space, so that updates stay HOT.';
COMMENT ON COLUMN shardwheel.partitions.epoch IS 'The fencing number: a new owner adds one, compared with the epoch it saw before it wrote its key in etcd.';
COMMENT ON COLUMN shardwheel.partitions.owner IS 'The shard that took the partition last; for people, the epoch decides.';
COMMENT ON COLUMN shardwheel.partitions.fired_through_ms IS 'The watermark T: all with a fire time up to here is acknowledged by Kafka.';
COMMENT ON COLUMN shardwheel.partitions.horizon_xid IS 'The horizon X: all changes with a smaller xid were in the wheel when T was reached.';
COMMENT ON COLUMN shardwheel.partitions.floor_ms IS 'The claim floor''s F: a T below which every fire has met the claim.';
COMMENT ON COLUMN shardwheel.partitions.floor_xid IS 'The claim floor''s X_F, stored together with F.';
COMMENT ON COLUMN shardwheel.partitions.kafka_generation IS 'Names Kafka''s data (cluster id, topic ids) under which T and X were stored; '''': never fired.';
COMMENT ON COLUMN shardwheel.partitions.timeline IS 'PostgreSQL''s timeline under which T and X were stored: after a fail-over, claims may be gone.';
COMMENT ON COLUMN shardwheel.partitions.system_identifier IS 'PostgreSQL''s system identifier: another one means a restore elsewhere, whose xids start again.';
COMMENT ON COLUMN shardwheel.partitions.taken_at IS 'When the epoch was bumped last.';
COMMENT ON COLUMN shardwheel.partitions.floor_at IS 'When the leader moved the floor last (its age is a metric).';
