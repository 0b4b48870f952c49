-- A fan-out of which an item was skipped has not succeeded: what waits for all its items must not run.

SET LOCAL ROLE shardwheel_migrator;

ALTER TABLE shardwheel.dag_fans ADD COLUMN skipped_items integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN shardwheel.dag_fans.skipped_items IS 'Items that were skipped (expired, deleted): without a failed one, one is enough to skip the task.';

-- Of fan-outs that are under way, what nobody has counted so far.
UPDATE shardwheel.dag_fans AS f
   SET skipped_items = (SELECT count(*) FROM shardwheel.executions AS i
                         WHERE i.dag_run_id = f.dag_run_id AND i.job_id = f.task_id AND i.item_no IS NOT NULL
                           AND i.state = 'skipped' AND i.reason IS DISTINCT FROM 'run_failed')
 WHERE f.open_items > 0;
