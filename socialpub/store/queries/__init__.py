"""The SQL of the hot paths: constants with bound parameters, one file per subject.

`store/engine/sql.py` runs them. The files contain queries only, no domain rules.
`tests/unit/store/queries/test_query_plans.py` explains each of them: none scans a table that grows. Open states are
literals, since SQLite uses a partial index only for those.
"""
