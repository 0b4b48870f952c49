-- Whether this process still watches; if so, nobody else can take over before this transaction ends. A lease that is
-- over and that nobody else has taken is as good: a look may take long when servers are away.
SELECT true FROM shardwheel.alert_watch WHERE holder = %(holder)s FOR SHARE
