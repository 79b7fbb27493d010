"""Posts can go: an event names its post without a reference, which SQLite would look for in all events at each deletion.

Retention sees to it that no event outlives its post. And deleted media are found by when that was, so that their rows go
once no post can name them.

Deliveries refer to events, so references are not looked at meanwhile: which is said outside of a transaction. So this one
begins its own, and finds out whether it was done before.
"""

import logging

atomic = False
log = logging.getLogger("socialpub.store")
PART = 100_000
COLUMNS = "number, id, organization, profile, type, post, data, request_id, created_at"


def up(migrator, db):
    if any(row[2] == "post" for row in db.execute_sql("PRAGMA foreign_key_list('event')").fetchall()):
        db.execute_sql("PRAGMA foreign_keys = 0")
        try:
            with db.atomic():
                rebuild(db)
        finally:
            db.execute_sql("PRAGMA foreign_keys = 1")
    db.execute_sql('CREATE INDEX IF NOT EXISTS "media_gone" ON "media" ("deleted_at") WHERE deleted_at IS NOT NULL')


def rebuild(db):
    db.execute_sql(
        'CREATE TABLE "event_new" ("number" INTEGER NOT NULL PRIMARY KEY, "id" TEXT NOT NULL, "organization" TEXT NOT NULL, '
        '"profile" TEXT, "type" TEXT NOT NULL, "post" TEXT, "data" TEXT NOT NULL, "request_id" TEXT, '
        '"created_at" INTEGER NOT NULL, FOREIGN KEY ("organization") REFERENCES "organization" ("id"), '
        'FOREIGN KEY ("profile") REFERENCES "profile" ("id"))'
    )
    last = db.execute_sql("SELECT coalesce(max(number), 0) FROM event").fetchone()[0]
    for after in range(0, last, PART):
        db.execute_sql(
            f"INSERT INTO event_new ({COLUMNS}) SELECT {COLUMNS} FROM event WHERE number > ? AND number <= ? ORDER BY number",
            (after, after + PART),
        )
        if last > PART:
            log.info("event: %d of %d rows are written anew", min(after + PART, last), last)
    db.execute_sql('DROP TABLE "event"')
    db.execute_sql('ALTER TABLE "event_new" RENAME TO "event"')
    db.execute_sql('CREATE UNIQUE INDEX "event_id" ON "event" ("id")')
    db.execute_sql('CREATE INDEX "event_organization_number" ON "event" ("organization", "number")')
