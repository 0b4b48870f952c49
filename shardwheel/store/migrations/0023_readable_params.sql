-- PostgreSQL stores numbers of a hundred thousand digits and nests of thousands of levels. Python's reader refuses both, and a dead
-- letter with such params ended whoever mirrors all tenants' letters: no door may let them in.

SET LOCAL ROLE shardwheel_migrator;

CREATE OR REPLACE FUNCTION shardwheel.check_enqueued(job jsonb) RETURNS void
  LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
  said CONSTANT jsonb := (job ->> 'schedule')::jsonb;
  backoff CONSTANT jsonb := job -> 'backoff';
  most_ms CONSTANT bigint := 7289654399999;
BEGIN
  IF octet_length((job -> 'params')::text) > 65536 * 2 OR octet_length((job - 'params')::text) > 65536 THEN
    RAISE EXCEPTION 'params: are too large; pass larger data by reference' USING ERRCODE = 'SW413', COLUMN = 'params';
  END IF;
  IF jsonb_path_exists(job -> 'params', 'strict $.**{100} ? (@.type() == "object" || @.type() == "array")') THEN
    RAISE EXCEPTION 'params: are nested deeper than 100 levels; make them flatter' USING ERRCODE = 'SW400', COLUMN = 'params';
  END IF;
  IF jsonb_path_exists(job -> 'params', 'strict $.** ? (@.type() == "number" && (@ > 1.8e308 || @ < -1.8e308))') THEN
    RAISE EXCEPTION 'params: have a number that is too large for JSON''s readers; send it as a text' USING ERRCODE = 'SW400', COLUMN = 'params';
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
