-- Whether anything was ever applied here.
SELECT to_regclass('shardwheel.migrations') IS NOT NULL
