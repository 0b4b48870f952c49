-- Fan-outs of a stale run: no item of theirs is open, whatever was counted.
UPDATE shardwheel.dag_fans AS f
   SET open_items = 0,
       failed_items = (SELECT count(*) FROM shardwheel.executions AS i
                        WHERE i.dag_run_id = f.dag_run_id AND i.job_id = f.task_id AND i.item_no IS NOT NULL
                          AND (i.state IN ('dead', 'cancelled') OR i.reason = 'run_failed'))
 WHERE f.dag_run_id = %(run_id)s AND f.open_items > 0
RETURNING uuid_send(f.dag_run_id), uuid_send(f.task_id), f.open_items, f.failed_items
