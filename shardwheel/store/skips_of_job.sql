-- The latest times of a job that were skipped, alone or as a range. Of its executions only the last ones are looked at.
SELECT shardwheel.ms(s.first_at), shardwheel.ms(s.last_at), s.count, s.reason
  FROM ((SELECT first_at, last_at, count, reason
           FROM shardwheel.skip_ranges
          WHERE job_id = %(job_id)s AND tenant_id = %(tenant_id)s
          ORDER BY first_at DESC
          LIMIT %(limit)s)
        UNION ALL
        SELECT x.scheduled_at, x.scheduled_at, 1, x.reason
          FROM (SELECT scheduled_at, state, reason
                  FROM shardwheel.executions
                 WHERE job_id = %(job_id)s AND tenant_id = %(tenant_id)s
                 ORDER BY execution_id DESC
                 LIMIT 200) AS x
         WHERE x.state = 'skipped') AS s
 ORDER BY s.first_at DESC
 LIMIT %(limit)s
