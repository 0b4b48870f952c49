-- In the transaction that applied it. The file may have become shardwheel_migrator: that role may insert here.
INSERT INTO shardwheel.migrations (number, name, sha256) VALUES (%(number)s, %(name)s, %(sha256)s)
