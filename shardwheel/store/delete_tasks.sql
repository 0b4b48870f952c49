-- A deleted DAG's tasks, of all versions, are tombstones too; in key order, as the claim locks them.
WITH task AS MATERIALIZED (
  SELECT j.job_id FROM shardwheel.jobs AS j
   WHERE j.dag_id = %(dag_id)s AND j.tenant_id = %(tenant_id)s AND j.state <> 'deleted'
   ORDER BY j.job_id
     FOR UPDATE OF j
)
UPDATE shardwheel.jobs AS j SET state = 'deleted' FROM task AS t WHERE j.job_id = t.job_id
