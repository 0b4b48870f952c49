-- Runs that had ended go on: each needs its DAG's slot again, if runs of that must not overlap. In key order, as claims take
-- them, and waiting for whoever is just giving one back; of one DAG the oldest run. Which runs need one.
WITH wanted AS MATERIALIZED (
  SELECT r.dag_run_id, r.dag_id, r.tenant_id, r.partition
    FROM shardwheel.dag_runs AS r
    JOIN shardwheel.jobs AS j ON j.job_id = r.dag_id
   WHERE r.dag_run_id = ANY (%(run_ids)s::uuid[]) AND j.overlap <> 'allow'
),
freed_later AS (
  UPDATE shardwheel.executions AS x SET slotted = true FROM wanted AS w WHERE x.execution_id = w.dag_run_id
),
taken AS (
  INSERT INTO shardwheel.overlap_slots (job_id, tenant_id, partition, execution_id, scheduled_at)
  SELECT DISTINCT ON (w.dag_id) w.dag_id, w.tenant_id, w.partition, w.dag_run_id, clock_timestamp()
    FROM wanted AS w
   ORDER BY w.dag_id, w.dag_run_id
  ON CONFLICT (job_id) DO NOTHING
)
SELECT uuid_send(dag_run_id), uuid_send(dag_id) FROM wanted
