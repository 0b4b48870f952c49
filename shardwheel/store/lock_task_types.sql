-- A claim locks the rows of its task types, FOR SHARE; where there is none, what it still has is the lock on the table.
-- So whoever makes a row that claims must obey waits for those under way, and the next ones wait for the row.
LOCK TABLE shardwheel.task_types IN EXCLUSIVE MODE
