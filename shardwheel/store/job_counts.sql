-- Active jobs by partition, for people who ask: it walks the whole index.
SELECT partition, count(*) FROM shardwheel.jobs WHERE state = 'active' GROUP BY partition
