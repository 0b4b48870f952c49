-- Nothing of these deleted jobs is held any more.
DELETE FROM shardwheel.deleted_held AS d
 WHERE d.job_id = ANY (%(job_ids)s::uuid[])
   AND NOT EXISTS (SELECT FROM shardwheel.executions AS x WHERE x.job_id = d.job_id AND x.pending = 'held' AND x.dag_run_id IS NULL)
