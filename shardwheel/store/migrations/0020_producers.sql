-- Applications that store jobs in their own transactions: with the right to call one function, and no right on any table.
--   shardwheel_producer  may call shardwheel.enqueue; an application's login is made a member of it
-- Whose jobs a login may store stands in shardwheel.producers. The login is the session's user: SET ROLE does not
-- change it, nor does the function's own role.

DO $$
BEGIN
  IF to_regrole('shardwheel_producer') IS NULL THEN
    CREATE ROLE shardwheel_producer NOLOGIN;
  END IF;
EXCEPTION
  -- Roles belong to the whole server: a migration of another database may make it at this moment.
  WHEN duplicate_object OR unique_violation THEN NULL;
  WHEN insufficient_privilege THEN
    RAISE EXCEPTION '% may not create the role shardwheel_producer: let an administrator run CREATE ROLE shardwheel_producer', current_user
      USING ERRCODE = 'insufficient_privilege';
END $$;
GRANT USAGE ON SCHEMA shardwheel TO shardwheel_producer;

SET LOCAL ROLE shardwheel_migrator;

CREATE TABLE shardwheel.producers (
  tenant_id   text NOT NULL CHECK (tenant_id <> ''),
  login       text NOT NULL CHECK (login <> ''),
  tasks       text[],
  created_at  timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  PRIMARY KEY (login, tenant_id)
);
COMMENT ON TABLE shardwheel.producers IS 'Which logins of PostgreSQL may store jobs for which tenants by shardwheel.enqueue. By name: take the row away before the role is dropped.';
COMMENT ON COLUMN shardwheel.producers.tasks IS 'The task types that it may enqueue; null: any.';
GRANT SELECT, INSERT, UPDATE, DELETE ON shardwheel.producers TO shardwheel_system;
ALTER TABLE shardwheel.producers ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON shardwheel.producers TO shardwheel_api
  USING (tenant_id = current_setting('shardwheel.tenant', true)) WITH CHECK (tenant_id = current_setting('shardwheel.tenant', true));
CREATE POLICY all_tenants ON shardwheel.producers TO shardwheel_system USING (true) WITH CHECK (true);

-- As whoever calls it: the membership is granted with the caller's own rights.
CREATE FUNCTION shardwheel.grant_producer(of_login text, of_tenant text, of_tasks text[]) RETURNS void
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF to_regrole(quote_ident(of_login)) IS NULL THEN
    RAISE EXCEPTION 'login: there is no role % in this PostgreSQL; create it first', quote_ident(of_login) USING ERRCODE = 'undefined_object';
  END IF;
  IF NOT pg_has_role(of_login, 'shardwheel_producer', 'USAGE') THEN
    EXECUTE format('GRANT shardwheel_producer TO %I', of_login);
  END IF;
  INSERT INTO shardwheel.producers (login, tenant_id, tasks) VALUES (of_login, of_tenant, of_tasks)
  ON CONFLICT (login, tenant_id) DO UPDATE SET tasks = excluded.tasks;
END $$;
COMMENT ON FUNCTION shardwheel.grant_producer(text, text, text[]) IS 'Let a login store jobs for a tenant; said again, with other task types.';
REVOKE ALL ON FUNCTION shardwheel.grant_producer(text, text, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION shardwheel.grant_producer(text, text, text[]) TO shardwheel_system;

-- Who has the system role's rights could write the rows anyway: it needs no row here.
CREATE FUNCTION shardwheel.check_producer(of_tenant text, of_task text) RETURNS void
  LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  allowed text[];
BEGIN
  IF pg_has_role(session_user, 'shardwheel_system', 'USAGE') THEN
    RETURN;
  END IF;
  SELECT p.tasks INTO allowed FROM shardwheel.producers AS p WHERE p.login = session_user AND p.tenant_id = of_tenant;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'tenant: % may not store jobs for it; an operator allows it by: shardctl producer grant', quote_ident(session_user)
      USING ERRCODE = 'SW403', COLUMN = 'tenant';
  ELSIF of_task <> ALL (allowed) THEN
    RAISE EXCEPTION 'task: % may not enqueue it; an operator allows it by: shardctl producer grant', quote_ident(session_user)
      USING ERRCODE = 'SW403', COLUMN = 'task';
  END IF;
END $$;
COMMENT ON FUNCTION shardwheel.check_producer(text, text) IS 'Refuses a session whose login may not store jobs of this task for this tenant.';
REVOKE ALL ON FUNCTION shardwheel.check_producer(text, text) FROM PUBLIC;

-- The client has checked all of this, and says it better. But a caller need not be our client, and what is stored is
-- read by shards and workers of all tenants: nothing may pass that could stop them.
CREATE FUNCTION shardwheel.check_enqueued(job jsonb) RETURNS void
  LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
  said CONSTANT jsonb := (job ->> 'schedule')::jsonb;
  backoff CONSTANT jsonb := job -> 'backoff';
  most_ms CONSTANT bigint := 7289654399999;
BEGIN
  IF octet_length((job -> 'params')::text) > 65536 * 2 OR octet_length((job - 'params')::text) > 65536 THEN
    RAISE EXCEPTION 'params: are too large; pass larger data by reference' USING ERRCODE = 'SW413', COLUMN = 'params';
  END IF;
  IF (jsonb_typeof(job -> 'params') = 'object'
      AND char_length(job ->> 'task') BETWEEN 1 AND 200 AND char_length(job ->> 'name') <= 200
      AND jsonb_typeof(job -> 'tags') = 'array' AND jsonb_array_length(job -> 'tags') <= 32
      AND jsonb_typeof(said) = 'object' AND said - ARRAY['cron', 'every_ms', 'time_zone', 'dst_gap', 'dst_fold', 'exclude'] = '{}'
      AND NOT said @> '{"cron": null}' AND NOT said @> '{"every_ms": null}' AND NOT (said ? 'cron' AND said ? 'every_ms')
      AND coalesce((said ->> 'every_ms')::bigint BETWEEN 10 AND most_ms, true)
      AND coalesce((job ->> 'anchor_ms')::bigint BETWEEN 0 AND most_ms, said ? 'cron')
      AND coalesce((job ->> 'start_ms')::bigint BETWEEN 0 AND most_ms, true)
      AND coalesce((job ->> 'end_ms')::bigint BETWEEN 0 AND most_ms, true)
      AND coalesce((job ->> 'last_ms')::bigint BETWEEN 0 AND most_ms, true)
      AND (job ->> 'jitter_ms')::bigint BETWEEN 0 AND 86400000
      AND (job ->> 'timeout_ms')::bigint BETWEEN 1 AND 604800000
      AND (job ->> 'max_retries')::integer BETWEEN 0 AND 1000
      AND (job ->> 'misfire_grace_ms')::bigint BETWEEN 0 AND 31622400000
      AND (job ->> 'catchup_window_ms')::bigint BETWEEN 0 AND most_ms
      AND coalesce((job ->> 'not_after_ms')::bigint BETWEEN 0 AND 31622400000, true)
      AND jsonb_typeof(backoff) = 'object' AND backoff - ARRAY['kind', 'base_s', 'factor', 'max_s', 'jitter'] = '{}'
      AND backoff ->> 'kind' IN ('exponential', 'linear', 'fixed')
      AND jsonb_typeof(backoff -> 'base_s') = 'number' AND (backoff ->> 'base_s')::float8 BETWEEN 0 AND 86400
      AND jsonb_typeof(backoff -> 'factor') = 'number' AND (backoff ->> 'factor')::float8 BETWEEN 1 AND 100
      AND jsonb_typeof(backoff -> 'max_s') = 'number' AND (backoff ->> 'max_s')::float8 BETWEEN 0 AND 2678400
      AND jsonb_typeof(backoff -> 'jitter') = 'number' AND (backoff ->> 'jitter')::float8 BETWEEN 0 AND 1) IS NOT TRUE THEN
    RAISE EXCEPTION 'job: is not as the client writes it; use shardwheel.Client' USING ERRCODE = 'SW400', COLUMN = 'job';
  END IF;
END $$;
COMMENT ON FUNCTION shardwheel.check_enqueued(jsonb) IS 'Refuses a job that the API would not have stored.';
REVOKE ALL ON FUNCTION shardwheel.check_enqueued(jsonb) FROM PUBLIC;

-- The tenant's own limits, those that need no memory. What is usual for all tenants and how many a second are the
-- API's settings: they are not known here.
CREATE FUNCTION shardwheel.check_quotas(of_tenant text, params_bytes integer) RETURNS void
  LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  own CONSTANT jsonb := (SELECT t.limits FROM shardwheel.tenants AS t WHERE t.tenant_id = of_tenant);
  most_bytes CONSTANT numeric := CASE WHEN jsonb_typeof(own -> 'params_bytes') = 'number' THEN (own ->> 'params_bytes')::numeric ELSE 0 END;
  most_jobs CONSTANT numeric := CASE WHEN jsonb_typeof(own -> 'active_jobs') = 'number' THEN (own ->> 'active_jobs')::numeric ELSE 0 END;
BEGIN
  IF most_bytes > 0 AND params_bytes > most_bytes THEN
    RAISE EXCEPTION 'params: have % bytes; this tenant may send %, so store what is large elsewhere', params_bytes, most_bytes
      USING ERRCODE = 'SW413', COLUMN = 'params';
  END IF;
  IF most_jobs > 0 AND (SELECT count(*) FROM (SELECT FROM shardwheel.jobs AS j WHERE j.tenant_id = of_tenant AND j.state = 'active'
                                               LIMIT most_jobs::bigint) AS counted) >= most_jobs THEN
    RAISE EXCEPTION 'active_jobs: this tenant may have %; pause or delete some, or let them complete', most_jobs
      USING ERRCODE = 'SW429', COLUMN = 'active_jobs';
  END IF;
END $$;
COMMENT ON FUNCTION shardwheel.check_quotas(text, integer) IS 'Refuses a job that is more than its tenant may have.';
REVOKE ALL ON FUNCTION shardwheel.check_quotas(text, integer) FROM PUBLIC;

CREATE FUNCTION shardwheel.enqueue(
  of_tenant text, new_id uuid, in_partition smallint, job jsonb, params_bytes integer, idempotency_key text, body_hash bytea
) RETURNS SETOF shardwheel.jobs
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
  known record;
  own CONSTANT integer := greatest(params_bytes, octet_length(job ->> 'params') / 2);
BEGIN
  PERFORM shardwheel.check_producer(of_tenant, job ->> 'task');
  PERFORM shardwheel.check_enqueued(job);
  IF idempotency_key IS NOT NULL THEN
    IF char_length(idempotency_key) NOT BETWEEN 1 AND 200 OR octet_length(body_hash) IS DISTINCT FROM 16 THEN
      RAISE EXCEPTION 'idempotency_key: is not as the client writes it; use shardwheel.Client' USING ERRCODE = 'SW400', COLUMN = 'idempotency_key';
    END IF;
    INSERT INTO shardwheel.idempotency_keys AS k (tenant_id, key, body_hash, expires_at, answer)
    VALUES (of_tenant, idempotency_key, enqueue.body_hash, clock_timestamp() + interval '24 hours', to_jsonb(new_id))
    ON CONFLICT (tenant_id, key) DO UPDATE
       SET body_hash = excluded.body_hash, expires_at = excluded.expires_at, created_at = clock_timestamp(), answer = excluded.answer
     WHERE k.expires_at < clock_timestamp();
    IF NOT FOUND THEN
      SELECT k.body_hash, (k.answer #>> '{}')::uuid AS job_id INTO known
        FROM shardwheel.idempotency_keys AS k WHERE k.tenant_id = of_tenant AND k.key = idempotency_key;
      IF known.body_hash <> enqueue.body_hash THEN
        RAISE EXCEPTION 'idempotency_key: % was used for another body; choose another key', quote_literal(idempotency_key)
          USING ERRCODE = 'SW409', COLUMN = 'idempotency_key';
      END IF;
      RETURN QUERY SELECT j.* FROM shardwheel.jobs AS j WHERE j.job_id = known.job_id AND j.tenant_id = of_tenant;
      RETURN;
    END IF;
  END IF;
  PERFORM shardwheel.check_quotas(of_tenant, own);
  INSERT INTO shardwheel.audit (tenant_id, actor, role, action, object_kind, object_id, details)
  VALUES (of_tenant, session_user, 'producer', 'job.create', 'job', new_id::text, jsonb_build_object('before', null, 'after', job - 'params'));
  RETURN QUERY
    INSERT INTO shardwheel.jobs AS j
           (job_id, tenant_id, partition, task, name, params, tags, schedule, anchor_at, start_at, end_at, last_at, max_runs, jitter_ms,
            pool, priority, timeout_ms, max_retries, backoff, misfire, misfire_grace_ms, catchup_window_ms, overlap, not_after_ms, callback_url)
    SELECT new_id, of_tenant, in_partition, n.task, n.name, n.params, ARRAY(SELECT jsonb_array_elements_text(n.tags)), n.schedule,
           shardwheel.at(n.anchor_ms), shardwheel.at(n.start_ms), shardwheel.at(n.end_ms), shardwheel.at(n.last_ms), n.max_runs, n.jitter_ms,
           n.pool, n.priority, n.timeout_ms, n.max_retries, n.backoff, n.misfire, n.misfire_grace_ms, n.catchup_window_ms, n.overlap,
           n.not_after_ms, n.callback_url
      FROM jsonb_to_record(job)
        AS n (task text, name text, params jsonb, tags jsonb, schedule text, anchor_ms bigint, start_ms bigint, end_ms bigint, last_ms bigint,
              max_runs integer, jitter_ms integer, pool text, priority smallint, timeout_ms bigint, max_retries integer, backoff jsonb,
              misfire text, misfire_grace_ms bigint, catchup_window_ms bigint, overlap text, not_after_ms bigint, callback_url text)
    RETURNING j.*;
END $$;
COMMENT ON FUNCTION shardwheel.enqueue(text, uuid, smallint, jsonb, integer, text, bytea) IS 'Stores a job in the caller''s transaction, or finds the one that its idempotency key made. For logins that have no right on any table.';
REVOKE ALL ON FUNCTION shardwheel.enqueue(text, uuid, smallint, jsonb, integer, text, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION shardwheel.enqueue(text, uuid, smallint, jsonb, integer, text, bytea) TO shardwheel_producer, shardwheel_system;

-- max_runs counts from the moment the schedule takes effect, which only the insert knows: its last time comes after it,
-- in the same transaction.
CREATE FUNCTION shardwheel.limit_enqueued(of_job uuid, last_ms bigint) RETURNS SETOF shardwheel.jobs
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM shardwheel.check_producer(j.tenant_id, j.task) FROM shardwheel.jobs AS j WHERE j.job_id = of_job;
  RETURN QUERY
    UPDATE shardwheel.jobs AS j SET last_at = shardwheel.at(last_ms)
     WHERE j.job_id = of_job AND j.max_runs IS NOT NULL AND j.version = 1 AND j.schedule_xid = pg_current_xact_id()
    RETURNING j.*;
END $$;
COMMENT ON FUNCTION shardwheel.limit_enqueued(uuid, bigint) IS 'The last time of a job with max_runs that this transaction stored.';
REVOKE ALL ON FUNCTION shardwheel.limit_enqueued(uuid, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION shardwheel.limit_enqueued(uuid, bigint) TO shardwheel_producer, shardwheel_system;
