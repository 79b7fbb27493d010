"""Who is renewing an account's tokens now, and until when that counts: two processes do not both use a refresh token."""


def up(migrator, db):
    db.execute_sql("ALTER TABLE account ADD COLUMN renewing TEXT")
    db.execute_sql("ALTER TABLE account ADD COLUMN renewing_until INTEGER")
