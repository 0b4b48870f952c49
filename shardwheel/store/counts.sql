-- What is held, by reason, the dead letters that nobody has dealt with, and DAG runs that are past what was promised of them.
SELECT 'held', x.reason, count(*)
  FROM shardwheel.executions AS x
 WHERE x.partition = ANY (%(partitions)s) AND x.pending = 'held'
 GROUP BY x.reason
 UNION ALL
SELECT 'dead', NULL, count(*)
  FROM shardwheel.dead_letters AS d
 WHERE d.partition = ANY (%(partitions)s) AND d.state = 'open'
 UNION ALL
SELECT 'late', NULL, count(*)
  FROM shardwheel.dag_runs AS r
 WHERE r.partition = ANY (%(partitions)s) AND r.state = 'running' AND r.sla_at < clock_timestamp()
