"""Where a database that is moved on purpose came from."""


def up(migrator, db):
    db.execute_sql("ALTER TABLE instance ADD COLUMN moved TEXT")
