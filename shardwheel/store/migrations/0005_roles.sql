-- Who may do what. Three group roles without a login; a site's own logins are made members of them.
--   shardwheel_migrator  owns nothing by itself: may make and change the schema
--   shardwheel_system    the services: all rows of all tenants
--   shardwheel_api       the rows of the tenant named by the setting shardwheel.tenant, and no others
-- The owner of the tables (who ran the migrations) passes row-level security, so a site with one login works.

DO $$
DECLARE
  role_name text;
BEGIN
  FOREACH role_name IN ARRAY ARRAY['shardwheel_migrator', 'shardwheel_system', 'shardwheel_api'] LOOP
    BEGIN
      IF to_regrole(role_name) IS NULL THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
      END IF;
    EXCEPTION
      -- Roles belong to the whole server: a migration of another database may make them at this moment.
      WHEN duplicate_object OR unique_violation THEN NULL;
      WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'role % is missing and % may not create it: let an administrator run CREATE ROLE %', role_name, current_user, role_name
          USING ERRCODE = 'insufficient_privilege';
    END;
  END LOOP;
  -- A policy would do for reading and writing, but COPY FROM is refused under any policy. Where the owner may
  -- not give this away, services that SET ROLE shardwheel_system load their batches by unnest.
  BEGIN
    IF NOT (SELECT rolbypassrls FROM pg_roles WHERE rolname = 'shardwheel_system') THEN
      ALTER ROLE shardwheel_system BYPASSRLS;
    END IF;
  EXCEPTION
    WHEN insufficient_privilege THEN NULL;
    WHEN internal_error THEN NULL;  -- "tuple concurrently updated": another database's migration did it
  END;
END $$;

GRANT USAGE ON SCHEMA shardwheel TO shardwheel_system, shardwheel_api;
GRANT ALL ON SCHEMA shardwheel TO shardwheel_migrator;

GRANT SELECT, INSERT, UPDATE, DELETE ON
  shardwheel.cluster, shardwheel.tenants, shardwheel.partitions, shardwheel.jobs, shardwheel.executions,
  shardwheel.attempts, shardwheel.overlap_slots, shardwheel.skip_ranges, shardwheel.work_rows, shardwheel.task_types,
  shardwheel.dag_versions, shardwheel.dag_edges, shardwheel.dag_runs, shardwheel.dag_counters,
  shardwheel.dead_letters, shardwheel.idempotency_keys, shardwheel.audit
  TO shardwheel_system;
GRANT SELECT ON shardwheel.migrations TO shardwheel_system, shardwheel_api;

-- The API settles, cancels, triggers and redrives for its tenant; it deletes nothing but slots and expired keys.
GRANT SELECT ON shardwheel.cluster, shardwheel.partitions, shardwheel.attempts TO shardwheel_api;
GRANT SELECT, INSERT ON shardwheel.tenants, shardwheel.skip_ranges, shardwheel.audit TO shardwheel_api;
GRANT SELECT, INSERT, UPDATE ON
  shardwheel.jobs, shardwheel.executions, shardwheel.work_rows, shardwheel.task_types, shardwheel.dag_versions,
  shardwheel.dag_runs, shardwheel.dag_counters, shardwheel.dead_letters
  TO shardwheel_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON shardwheel.overlap_slots, shardwheel.idempotency_keys, shardwheel.dag_edges
  TO shardwheel_api;

REVOKE ALL ON FUNCTION shardwheel.make_month(timestamptz), shardwheel.make_months(integer, integer),
  shardwheel.drop_months(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION shardwheel.make_months(integer, integer), shardwheel.drop_months(timestamptz)
  TO shardwheel_system;

-- Without the setting the comparison is with null (or '', which no tenant is called): no row is seen.
DO $$
DECLARE
  table_name text;
BEGIN
  FOREACH table_name IN ARRAY ARRAY['tenants', 'jobs', 'executions', 'attempts', 'overlap_slots', 'skip_ranges',
    'work_rows', 'task_types', 'dag_versions', 'dag_edges', 'dag_runs', 'dag_counters', 'dead_letters',
    'idempotency_keys', 'audit'] LOOP
    EXECUTE format('ALTER TABLE shardwheel.%I ENABLE ROW LEVEL SECURITY', table_name);
    EXECUTE format('CREATE POLICY own_tenant ON shardwheel.%I TO shardwheel_api
                    USING (tenant_id = current_setting(''shardwheel.tenant'', true))
                    WITH CHECK (tenant_id = current_setting(''shardwheel.tenant'', true))', table_name);
    EXECUTE format('CREATE POLICY all_tenants ON shardwheel.%I TO shardwheel_system USING (true) WITH CHECK (true)', table_name);
  END LOOP;
END $$;

-- The months around now. From here on the sweep keeps them ahead.
SELECT shardwheel.make_months(3);
