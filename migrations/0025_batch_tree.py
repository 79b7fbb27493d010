"""Batches stand in one tree, by their ids, where they had one of rows and one more to find them by.

Posts refer to batches, and SQLite lets go of a table that is referred to only where references are not looked at: which is
said outside of a transaction. So this one begins its own, and finds out whether it was done before.
"""

import logging

atomic = False
log = logging.getLogger("socialpub.store")
PART = 100_000


def up(migrator, db):
    if "WITHOUT ROWID" in db.execute_sql("SELECT sql FROM sqlite_master WHERE name = 'batch'").fetchone()[0]:
        return
    db.execute_sql("PRAGMA foreign_keys = 0")
    try:
        with db.atomic():
            rebuild(db)
    finally:
        db.execute_sql("PRAGMA foreign_keys = 1")


def rebuild(db):
    db.execute_sql(
        'CREATE TABLE "batch_new" ("id" TEXT NOT NULL PRIMARY KEY, '
        '"organization" TEXT NOT NULL REFERENCES "organization" ("id"), "request_id" TEXT, '
        '"created_at" INTEGER NOT NULL, "scheduled_at" INTEGER) WITHOUT ROWID'
    )
    last = db.execute_sql("SELECT coalesce(max(rowid), 0) FROM batch").fetchone()[0]
    for after in range(0, last, PART):
        db.execute_sql(
            "INSERT INTO batch_new SELECT id, organization, request_id, created_at, scheduled_at FROM batch "
            "WHERE rowid > ? AND rowid <= ? ORDER BY rowid",
            (after, after + PART),
        )
        if last > PART:
            log.info("batch: %d of %d rows are written anew", min(after + PART, last), last)
    db.execute_sql('DROP TABLE "batch"')
    db.execute_sql('ALTER TABLE "batch_new" RENAME TO "batch"')
