-- A span of a schedule's times for the partition's owner to expand; it carries the schedule it belongs to.
INSERT INTO shardwheel.work_rows (tenant_id, partition, job_id, origin, schedule, schedule_no, anchor_at, jitter_ms, first_at, last_at, count,
                                  requeue_skipped, request_id)
VALUES (%(tenant_id)s, %(partition)s, %(job_id)s, %(origin)s, %(schedule)s, %(schedule_no)s, shardwheel.at(%(anchor_ms)s), %(jitter_ms)s,
        shardwheel.at(%(first_ms)s), shardwheel.at(%(last_ms)s), %(count)s, %(requeue_skipped)s, %(request_id)s)
ON CONFLICT DO NOTHING
