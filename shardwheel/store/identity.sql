-- Which PostgreSQL this is. The timeline is the one that is being written to: the control file learns of
-- a new one only at the first checkpoint after the fail-over. Both functions are open to every role.
SELECT system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline
FROM pg_control_system()
