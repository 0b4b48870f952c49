UPDATE shardwheel.dead_letters SET published_at = date_trunc('milliseconds', clock_timestamp())
 WHERE dead_letter_id = ANY (%(letter_ids)s::uuid[]) AND published_at IS NULL
