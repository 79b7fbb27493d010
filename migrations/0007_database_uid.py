"""An id of the database itself, under which a mark is kept outside its folder."""


def up(migrator, db):
    db.execute_sql("ALTER TABLE instance ADD COLUMN uid TEXT NOT NULL DEFAULT ''")
