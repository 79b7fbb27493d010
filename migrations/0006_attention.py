"""What a platform refuses an account beside its token, and how its renewals went of late."""


def up(migrator, db):
    for column in (
        "attention TEXT",
        "renewals TEXT",
        "renewal_refused_at INTEGER",
    ):
        db.execute_sql(f"ALTER TABLE account ADD COLUMN {column}")
