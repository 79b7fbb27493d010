"""Sample migration that rebuilds a referenced table to insert a column, in batches.

SQLite drops a referenced table only with foreign keys off, a setting that works only outside a transaction. So this
migration begins its own transaction, and detects an earlier run.
"""

atomic = False
PART = 2


def up(migrator, db):
    (made,) = db.execute_sql("SELECT sql FROM sqlite_master WHERE name = 'account'").fetchone()
    if "language" in made:
        return
    db.execute_sql("PRAGMA foreign_keys = 0")
    try:
        with db.atomic():
            rebuild(db, made)
    finally:
        db.execute_sql("PRAGMA foreign_keys = 1")


def rebuild(db, made):
    indexes = db.execute_sql("SELECT sql FROM sqlite_master WHERE tbl_name = 'account' AND type = 'index'").fetchall()
    columns = ", ".join(row[1] for row in db.execute_sql("PRAGMA table_info('account')").fetchall())
    language = "platform TEXT NOT NULL, language TEXT NOT NULL DEFAULT 'en'"
    db.execute_sql(made.replace("account (", "account_new (", 1).replace("platform TEXT NOT NULL", language, 1))
    last = db.execute_sql("SELECT coalesce(max(number), 0) FROM account").fetchone()[0]
    for after in range(0, last, PART):
        db.execute_sql(
            f"INSERT INTO account_new ({columns}) SELECT {columns} FROM account WHERE number > ? AND number <= ?",
            (after, after + PART),
        )
        db.execute_sql("DELETE FROM account WHERE number > ? AND number <= ?", (after, after + PART))
    db.execute_sql("DROP TABLE account")
    db.execute_sql("ALTER TABLE account_new RENAME TO account")
    for (index,) in indexes:
        db.execute_sql(index)
