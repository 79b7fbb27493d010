"""The SQL of the hot paths: constants with bound parameters, a file for each subject. `store/engine/sql.py` runs them.

Here stands what is asked of the tables, and nothing of what it means. Each is explained by
`tests/unit/store/queries/test_query_plans.py`: none walks through a table that grows. Open states are literals, since
SQLite uses a partial index only for those.
"""
