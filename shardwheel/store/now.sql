-- The authority for time, in milliseconds since 1970.
SELECT extract(epoch FROM clock_timestamp())::float8 * 1000
