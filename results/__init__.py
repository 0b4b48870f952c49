"""The result processor: settles results, retries, resolves DAG children, stores dead letters."""
