-- Deleted jobs of which more is to be ended: some of them; one at a time goes on with each.
SELECT uuid_send(d.job_id)
  FROM shardwheel.deleted_held AS d
 WHERE d.partition = ANY (%(partitions)s)
 ORDER BY d.job_id
 LIMIT %(jobs)s
   FOR UPDATE OF d SKIP LOCKED
