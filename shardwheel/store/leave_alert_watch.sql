-- Let another process watch at once.
UPDATE shardwheel.alert_watch SET until = '-infinity' WHERE holder = %(holder)s
