-- A version of a DAG: its tasks and edges. Whoever writes it has the DAG's row locked, or has just made it.
WITH version AS (
  INSERT INTO shardwheel.dag_versions (dag_id, version, tenant_id, partition, policy, sla_ms, max_retries, backoff, tasks, definition)
  VALUES (%(dag_id)s, %(version)s, %(tenant_id)s, %(partition)s, %(policy)s, %(sla_ms)s, %(max_retries)s, %(backoff)s::jsonb,
          cardinality(%(task_ids)s::uuid[]), %(definition)s::jsonb)
),
task AS (
  INSERT INTO shardwheel.dag_tasks (dag_id, version, task_id, tenant_id, partition, task_key, fan_out, in_degree)
  SELECT %(dag_id)s, %(version)s, task_id, %(tenant_id)s, %(partition)s, task_key, fan_out, in_degree
    FROM unnest(%(task_ids)s::uuid[], %(task_keys)s::text[], %(fan_outs)s::boolean[], %(in_degrees)s::bigint[])
      AS t (task_id, task_key, fan_out, in_degree)
)
INSERT INTO shardwheel.dag_edges (dag_id, version, child_id, parent_id, tenant_id, partition)
SELECT %(dag_id)s, %(version)s, child_id, parent_id, %(tenant_id)s, %(partition)s
  FROM unnest(%(child_ids)s::uuid[], %(parent_ids)s::uuid[]) AS e (child_id, parent_id)
