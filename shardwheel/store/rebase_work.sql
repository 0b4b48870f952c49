-- By the trigger, as what waits.
UPDATE shardwheel.work_rows SET changed_xid = changed_xid WHERE partition = ANY (%(partitions)s::smallint[])
