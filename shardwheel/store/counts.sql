-- What is held, by reason, and the dead letters that nobody has dealt with.
SELECT 'held', x.reason, count(*)
  FROM shardwheel.executions AS x
 WHERE x.partition = ANY (%(partitions)s) AND x.pending = 'held'
 GROUP BY x.reason
 UNION ALL
SELECT 'dead', NULL, count(*)
  FROM shardwheel.dead_letters AS d
 WHERE d.partition = ANY (%(partitions)s) AND d.state = 'open'
