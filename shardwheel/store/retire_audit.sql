DELETE FROM shardwheel.audit
 WHERE audit_id IN (
   SELECT audit_id FROM shardwheel.audit
    WHERE at < now() - %(audit)s
    ORDER BY at LIMIT %(most)s FOR UPDATE SKIP LOCKED)
