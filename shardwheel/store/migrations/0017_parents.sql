-- Jobs with parents: a scheduled job is the root of a run itself, its children are tasks in its partition.

SET LOCAL ROLE shardwheel_migrator;

COMMENT ON COLUMN shardwheel.jobs.dag_id IS 'The DAG, or the scheduled root job, that a task belongs to; it lives in the same partition. Its own id: a job that has children. Null for every other job, and for DAGs.';
COMMENT ON COLUMN shardwheel.executions.dag_run_id IS 'The DAG run that it is a task of. Its own id: a job that has children began, and its run is theirs.';

CREATE FUNCTION shardwheel.parents_of(of_dag uuid, of_child uuid) RETURNS bytea[] LANGUAGE sql STABLE AS $$
  SELECT ARRAY(SELECT uuid_send(e.parent_id)
                 FROM shardwheel.dag_edges AS e
                WHERE e.dag_id = of_dag AND e.child_id = of_child
                  AND e.version = (SELECT max(v.version) FROM shardwheel.dag_versions AS v WHERE v.dag_id = of_dag)
                ORDER BY e.parent_id)
$$;
COMMENT ON FUNCTION shardwheel.parents_of(uuid, uuid) IS 'Which jobs a task runs after, by its DAG''s latest version.';

CREATE FUNCTION shardwheel.children_of(of_parent uuid, of_tenant text) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
  SELECT e.child_id
    FROM shardwheel.jobs AS p
    JOIN shardwheel.dag_edges AS e ON e.dag_id = p.dag_id AND e.parent_id = p.job_id
   WHERE p.job_id = of_parent AND p.tenant_id = of_tenant
     AND e.version = (SELECT max(v.version) FROM shardwheel.dag_versions AS v WHERE v.dag_id = p.dag_id)
$$;
COMMENT ON FUNCTION shardwheel.children_of(uuid, text) IS 'Which jobs run after a job, by its DAG''s latest version.';
