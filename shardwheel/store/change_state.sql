-- Pause, resume, delete: the trigger gives the schedule a new state.
UPDATE shardwheel.jobs SET state = %(state)s WHERE job_id = %(job_id)s RETURNING shardwheel.ms(effective_from)
