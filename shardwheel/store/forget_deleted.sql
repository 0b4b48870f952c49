-- Nothing of these deleted jobs is held any more, but for what the sweep of DAGs ends.
DELETE FROM shardwheel.deleted_held AS d
 WHERE d.job_id = ANY (%(job_ids)s::uuid[])
   AND NOT EXISTS (SELECT FROM shardwheel.executions AS x WHERE x.job_id = d.job_id AND x.pending = 'held' AND x.dag_run_id IS NULL)
   AND NOT EXISTS (SELECT FROM shardwheel.dag_runs AS r
                     JOIN shardwheel.executions AS x ON x.dag_run_id = r.dag_run_id AND x.pending = 'held' AND x.reason <> 'deleted'
                    WHERE r.dag_id = d.job_id AND r.state = 'running')
