-- Who may do what: the services everything, the API the rows of one tenant.

SET LOCAL ROLE shardwheel_migrator;

GRANT SELECT, INSERT, UPDATE, DELETE ON
  shardwheel.cluster, shardwheel.tenants, shardwheel.partitions, shardwheel.jobs, shardwheel.executions,
  shardwheel.attempts, shardwheel.overlap_slots, shardwheel.skip_ranges, shardwheel.work_rows, shardwheel.task_types,
  shardwheel.dag_versions, shardwheel.dag_edges, shardwheel.dag_runs, shardwheel.dag_counters,
  shardwheel.dead_letters, shardwheel.idempotency_keys, shardwheel.audit
  TO shardwheel_system;

-- The API settles, cancels, triggers and redrives for its tenant; it deletes nothing but slots and keys.
GRANT SELECT ON shardwheel.cluster, shardwheel.partitions, shardwheel.attempts TO shardwheel_api;
GRANT SELECT, INSERT ON shardwheel.tenants, shardwheel.skip_ranges, shardwheel.dag_edges, shardwheel.audit TO shardwheel_api;
GRANT SELECT, UPDATE ON shardwheel.dead_letters TO shardwheel_api;
GRANT SELECT, INSERT, UPDATE ON
  shardwheel.jobs, shardwheel.executions, shardwheel.work_rows, shardwheel.task_types, shardwheel.dag_versions,
  shardwheel.dag_runs, shardwheel.dag_counters
  TO shardwheel_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON shardwheel.overlap_slots, shardwheel.idempotency_keys TO shardwheel_api;

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
