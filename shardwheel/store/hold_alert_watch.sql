-- Whether this process still watches; if so, nobody else can take over before this transaction ends.
SELECT true FROM shardwheel.alert_watch WHERE holder = %(holder)s AND until >= clock_timestamp() FOR SHARE
