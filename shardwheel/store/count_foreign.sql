SELECT count(*) FROM shardwheel.partitions
 WHERE system_identifier NOT IN (0, (SELECT system_identifier FROM pg_control_system()))
