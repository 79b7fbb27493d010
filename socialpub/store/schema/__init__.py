"""Table models, migrations and copies of the database file."""
