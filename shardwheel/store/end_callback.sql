-- What became of a try. A taker that was overtaken (its lease ran out, another one tried) only has a say when
-- it delivered.
UPDATE shardwheel.callbacks
   SET state = %(state)s, problem = %(problem)s, due_at = CASE WHEN %(state)s = 'open' THEN clock_timestamp() + %(pause)s ELSE due_at END,
       ended_at = CASE WHEN %(state)s <> 'open' THEN date_trunc('milliseconds', clock_timestamp()) END
 WHERE callback_id = %(callback_id)s AND state = 'open' AND (tries = %(tries)s OR %(state)s = 'delivered')
