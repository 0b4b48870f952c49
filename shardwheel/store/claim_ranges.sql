-- Ranges of a job's times, under the same lock as the claim: skipped ones become a skip range, those to be
-- caught up a work row that the partition's owner expands. Only the schedule in force may write.
WITH message AS MATERIALIZED (
  SELECT DISTINCT m.*
    FROM unnest(%(job_ids)s::uuid[], %(schedule_nos)s::bigint[], %(first)s::bigint[], %(last)s::bigint[],
                %(counts)s::bigint[], %(skips)s::boolean[], %(reasons)s::text[])
      AS m (job_id, schedule_no, first_ms, last_ms, count, skip, reason)
),
job AS MATERIALIZED (
  SELECT j.job_id, j.tenant_id, j.partition, j.schedule, j.schedule_no, j.anchor_at, j.jitter_ms, j.state
    FROM shardwheel.jobs AS j
   WHERE j.job_id = ANY (%(job_ids)s::uuid[])
   ORDER BY j.job_id
     FOR SHARE OF j
),
current AS MATERIALIZED (
  SELECT m.*, j.tenant_id, j.partition, j.schedule, j.anchor_at, j.jitter_ms
    FROM message AS m JOIN job AS j ON j.job_id = m.job_id AND j.schedule_no = m.schedule_no
),
skipped AS (
  INSERT INTO shardwheel.skip_ranges (job_id, first_at, last_at, tenant_id, partition, count, reason, schedule_no)
  SELECT job_id, shardwheel.at(first_ms), shardwheel.at(last_ms), tenant_id, partition, count, reason, schedule_no
    FROM current WHERE skip ORDER BY job_id, first_ms, last_ms
  ON CONFLICT DO NOTHING
  RETURNING reason, count
),
work AS (
  INSERT INTO shardwheel.work_rows (tenant_id, partition, job_id, origin, schedule, schedule_no, anchor_at, jitter_ms,
                                    first_at, last_at, count)
  SELECT tenant_id, partition, job_id, 'schedule', schedule, schedule_no, anchor_at, jitter_ms,
         shardwheel.at(first_ms), shardwheel.at(last_ms), count
    FROM current WHERE NOT skip ORDER BY job_id, first_ms, last_ms
  ON CONFLICT DO NOTHING
  RETURNING 1
)
SELECT reason, sum(count)::bigint FROM skipped GROUP BY reason
UNION ALL
SELECT '', count(*) FROM work
