-- Watch, or go on watching: the row is mine, or its lease is over.
UPDATE shardwheel.alert_watch
   SET holder = %(holder)s, until = clock_timestamp() + %(lease)s
 WHERE holder = %(holder)s OR until < clock_timestamp()
RETURNING true
