-- What this database has. Run only when the ledger exists.
SELECT number, name, sha256 FROM shardwheel.migrations ORDER BY number
