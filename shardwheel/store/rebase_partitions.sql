-- Partitions that are not stored under this PostgreSQL: another's, and those that never had an owner, whose jobs
-- are from there too. Locked: nobody takes them meanwhile.
SELECT partition FROM shardwheel.partitions
 WHERE system_identifier <> (SELECT system_identifier FROM pg_control_system())
 ORDER BY partition FOR UPDATE
