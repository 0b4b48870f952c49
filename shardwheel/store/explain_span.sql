-- A skip range that holds this time of a job, or else a work row that has yet to come to it.
SELECT first_ms, last_ms, times, reason, is_skip
  FROM (SELECT shardwheel.ms(r.first_at) AS first_ms, shardwheel.ms(r.last_at) AS last_ms, r.count AS times, r.reason, true AS is_skip, r.created_at
          FROM shardwheel.skip_ranges AS r
         WHERE r.job_id = %(job_id)s AND r.tenant_id = %(tenant_id)s AND shardwheel.at(%(scheduled_ms)s) BETWEEN r.first_at AND r.last_at
         UNION ALL
        SELECT shardwheel.ms(w.first_at), shardwheel.ms(w.last_at), w.count, w.origin, false, w.created_at
          FROM shardwheel.work_rows AS w
         WHERE w.job_id = %(job_id)s AND w.tenant_id = %(tenant_id)s AND w.state = 'open'
           AND shardwheel.at(%(scheduled_ms)s) BETWEEN coalesce(w.cursor_at, w.first_at) AND w.last_at) AS s
 ORDER BY is_skip, created_at DESC
 LIMIT 1
