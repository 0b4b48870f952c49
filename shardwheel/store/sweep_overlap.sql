-- Jobs of which something is held because another run had the slot, and nobody has it any more: the oldest gets it. A
-- page of jobs after the one looked at last, in key order, as claims take slots.
WITH page AS MATERIALIZED (
  SELECT h.tenant_id, h.held_for, h.partition = ANY (%(partitions)s)
         AND NOT EXISTS (SELECT FROM shardwheel.overlap_slots AS s WHERE s.job_id = h.held_for::uuid) AS is_free
    FROM shardwheel.holds('overlap', %(after_tenant)s, %(after_job)s, %(page)s) AS h
),
handed AS MATERIALIZED (
  SELECT shardwheel.hand_on_job_slot(p.job_id) AS done
    FROM (SELECT held_for::uuid AS job_id FROM page WHERE is_free ORDER BY 1) AS p
)
SELECT p.tenant_id, p.held_for FROM page AS p WHERE (SELECT count(*) FROM handed) >= 0
 ORDER BY p.tenant_id DESC, p.held_for DESC LIMIT 1
