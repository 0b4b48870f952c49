-- Everything goes on from the claim floor, under this PostgreSQL; whoever owned it takes it anew.
UPDATE shardwheel.partitions p
   SET epoch = p.epoch + 1, owner = '', fired_through_ms = p.floor_ms,
       horizon_xid = pg_current_xact_id(), floor_xid = pg_current_xact_id(),
       system_identifier = c.system_identifier,
       timeline = ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int,
       updated_at = clock_timestamp()
  FROM pg_control_system() AS c
 WHERE p.partition = ANY (%(partitions)s::smallint[])
