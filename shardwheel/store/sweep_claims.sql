-- Claims of which nothing runs any more go, and those of which less than half does shrink to that: no sweep looks at
-- an execution again for long after it ended, however long another one of its claim runs. One that runs again was
-- claimed again, and is named by that claim.
WITH named AS MATERIALIZED (
  SELECT c.claim_id, i.execution_id
    FROM shardwheel.claims AS c CROSS JOIN LATERAL unnest(c.execution_ids) AS i (execution_id)
   WHERE c.partition = ANY (%(partitions)s)
),
running AS MATERIALIZED (
  SELECT x.execution_id
    FROM shardwheel.executions AS x
   WHERE x.execution_id = ANY (ARRAY(SELECT n.execution_id FROM named AS n)) AND x.state = 'running'
),
found AS MATERIALIZED (
  SELECT n.claim_id, count(*) AS named, count(r.execution_id) AS running,
         array_agg(r.execution_id) FILTER (WHERE r.execution_id IS NOT NULL) AS execution_ids
    FROM named AS n LEFT JOIN running AS r USING (execution_id)
   GROUP BY n.claim_id
),
ended AS (
  DELETE FROM shardwheel.claims AS c USING found AS f WHERE c.claim_id = f.claim_id AND f.running = 0
)
UPDATE shardwheel.claims AS c
   SET execution_ids = f.execution_ids
  FROM found AS f
 WHERE c.claim_id = f.claim_id AND f.running > 0 AND f.running * 2 < f.named
