SELECT uuid_send(e.parent_id), uuid_send(e.child_id)
  FROM shardwheel.dag_edges AS e
 WHERE e.dag_id = %(dag_id)s AND e.version = %(version)s
 ORDER BY e.child_id, e.parent_id
