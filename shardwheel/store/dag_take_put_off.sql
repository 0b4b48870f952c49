-- What runs have not been told of, to be told now: the runs are locked, so nobody else takes it.
WITH taken AS MATERIALIZED (
  SELECT dag_run_id, task_id, item_no
    FROM shardwheel.dag_put_off
   WHERE dag_run_id = ANY (%(run_ids)s::uuid[])
   ORDER BY dag_run_id, task_id, item_no
   LIMIT %(most)s
)
DELETE FROM shardwheel.dag_put_off AS p
 USING taken AS t
 WHERE p.dag_run_id = t.dag_run_id AND p.task_id = t.task_id AND p.item_no = t.item_no
RETURNING uuid_send(p.dag_run_id), uuid_send(p.task_id), nullif(p.item_no, -1), p.state, p.reason
