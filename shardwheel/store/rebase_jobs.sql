-- What the floor's horizon had seen stays below it, what it had not stays above: the two sides of the new one.
-- (3 is the first xid there is. The trigger is off: it would put the old ones back.)
UPDATE shardwheel.jobs j
   SET schedule_xid = CASE WHEN j.schedule_xid < p.floor_xid THEN '3'::xid8 ELSE pg_current_xact_id() END,
       changed_xid = pg_current_xact_id()
  FROM shardwheel.partitions p
 WHERE p.partition = j.partition AND p.partition = ANY (%(partitions)s::smallint[])
