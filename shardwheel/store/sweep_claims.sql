-- Claims of which nothing runs any more: no sweep needs to look at their executions again. One that runs again was
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
)
DELETE FROM shardwheel.claims AS c
 WHERE c.claim_id IN (SELECT claim_id FROM named EXCEPT SELECT n.claim_id FROM named AS n JOIN running AS r USING (execution_id))
