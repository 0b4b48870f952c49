"""PostgreSQL: pools, migrations, and the protocols' statements as named .sql files."""
