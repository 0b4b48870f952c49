-- Where the planner knows nothing of a table yet, it took ten thousand rows for one, and what followed took their square.

SET LOCAL ROLE shardwheel_migrator;

-- What a statement made run is found without a join: the plan that a session had made for one row was kept, for ten thousand that
-- are asked to stop (3.4 s), and for each full batch of a worker that had begun with a lone execution.
CREATE OR REPLACE FUNCTION shardwheel.executions_updated() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO shardwheel.claims (partition, execution_ids)
  SELECT min(c.partition), array_agg(c.execution_id)
    FROM (SELECT partition, execution_id FROM changed WHERE state = 'running'
          EXCEPT SELECT partition, execution_id FROM former WHERE state = 'running') AS c
  HAVING count(*) > 0;
  RETURN NULL;
END $$;

-- A task of a version is found by the primary key. As good as that seemed the way over the keys of all tasks of the version.
ALTER TABLE shardwheel.dag_tasks
  DROP CONSTRAINT dag_tasks_dag_id_version_task_key_key,
  ADD CONSTRAINT dag_tasks_key UNIQUE (task_key, version, dag_id);
