"""The SQLite database: tables, queries, the single writer, and the job queue."""
