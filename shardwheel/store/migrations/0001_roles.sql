-- Three group roles without a login; a site's own logins are made members of them.
--   shardwheel_migrator  owns everything in the schema: every later file begins by becoming it
--   shardwheel_system    the services: all rows of all tenants
--   shardwheel_api       the rows of the tenant named by the setting shardwheel.tenant, and no others
-- Whoever runs this becomes a member of all three, so that a site with one login, superuser or not, works;
-- where it may not create roles, an administrator does so once and makes it a member.

DO $$
DECLARE
  role_name text;
BEGIN
  FOREACH role_name IN ARRAY ARRAY['shardwheel_migrator', 'shardwheel_system', 'shardwheel_api'] LOOP
    BEGIN
      IF to_regrole(role_name) IS NULL THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
      END IF;
      IF NOT pg_has_role(role_name, 'SET') THEN
        EXECUTE format('GRANT %I TO CURRENT_USER WITH INHERIT TRUE, SET TRUE', role_name);
      END IF;
    EXCEPTION
      -- Roles belong to the whole server: a migration of another database may make them at this moment.
      WHEN duplicate_object OR unique_violation THEN NULL;
      WHEN insufficient_privilege THEN
        RAISE EXCEPTION '% may not create or use the role %: let an administrator run CREATE ROLE % (if it is missing) and GRANT % TO %',
          current_user, role_name, role_name, role_name, current_user USING ERRCODE = 'insufficient_privilege';
    END;
  END LOOP;
  -- A policy would do for reading and writing, but COPY FROM is refused under any policy. Where the runner may
  -- not give this away, the system role passes by policy and loads its batches by unnest.
  BEGIN
    IF NOT (SELECT rolbypassrls FROM pg_roles WHERE rolname = 'shardwheel_system') THEN
      ALTER ROLE shardwheel_system BYPASSRLS;
    END IF;
  EXCEPTION
    WHEN insufficient_privilege THEN NULL;
    WHEN internal_error THEN NULL;  -- "tuple concurrently updated": another database's migration did it
  END;
END $$;

GRANT USAGE, CREATE ON SCHEMA shardwheel TO shardwheel_migrator;
GRANT SELECT, INSERT ON shardwheel.migrations TO shardwheel_migrator;
GRANT USAGE ON SCHEMA shardwheel TO shardwheel_system, shardwheel_api;
GRANT SELECT ON shardwheel.migrations TO shardwheel_system, shardwheel_api;
