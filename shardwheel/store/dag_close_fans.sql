-- Fan-outs of a stale run: no item of theirs is open, whatever was counted.
UPDATE shardwheel.dag_fans AS f
   SET open_items = 0, failed_items = n.failed, skipped_items = n.skipped
  FROM (SELECT o.task_id, count(*) FILTER (WHERE i.state IN ('dead', 'cancelled')) AS failed,
               count(*) FILTER (WHERE i.state = 'skipped') AS skipped
          FROM shardwheel.dag_fans AS o
          LEFT JOIN shardwheel.executions AS i ON i.dag_run_id = o.dag_run_id AND i.job_id = o.task_id AND i.item_no IS NOT NULL
         WHERE o.dag_run_id = %(run_id)s AND o.open_items > 0
         GROUP BY o.task_id) AS n
 WHERE f.dag_run_id = %(run_id)s AND f.task_id = n.task_id
RETURNING uuid_send(f.dag_run_id), uuid_send(f.task_id), f.open_items, f.failed_items, f.skipped_items
