-- What of this worker's own is asked to stop: by an index that is nearly always empty.
SELECT uuid_send(execution_id) FROM shardwheel.executions
 WHERE worker = %(worker)s AND cancel_requested_at IS NOT NULL AND state = 'running'
