"""What each accepted post writes beside itself takes less: who is owed an answer has a small table of its own, and an act
has no id that nobody asks for, and no index by time alone.

A million acts are written anew in a few seconds. Nothing refers to them.
"""

import logging

atomic = False
log = logging.getLogger("socialpub.store")
PART = 100_000

OWED = """
    CREATE TABLE IF NOT EXISTS "owed" (
        "id" TEXT NOT NULL PRIMARY KEY,
        "batch" TEXT NOT NULL,
        "created_at" INTEGER NOT NULL
    ) WITHOUT ROWID
"""
AUDIT = """
    CREATE TABLE "audit_new" (
        "number" INTEGER NOT NULL PRIMARY KEY,
        "at" INTEGER NOT NULL,
        "organization" TEXT,
        "key" TEXT,
        "user" TEXT,
        "verb" TEXT NOT NULL,
        "subject" TEXT,
        "address" TEXT NOT NULL,
        "request_id" TEXT NOT NULL
    )
"""
ACTS = """
    INSERT INTO audit_new SELECT rowid, at, organization, key, user, verb, subject, address, request_id FROM audit
    WHERE rowid > ? AND rowid <= ? ORDER BY rowid
"""
INDEXES = (
    'CREATE INDEX "audit_organization_at" ON "audit" ("organization", "at")',
    'CREATE INDEX "audit_user" ON "audit" ("organization", "user", "at") WHERE user IS NOT NULL',
    'CREATE INDEX "audit_organization_verb_at" ON "audit" ("organization", "verb", "at")',
)


def up(migrator, db):
    with db.atomic():
        db.execute_sql(OWED)
        # An answer that is kept for a key has the status that it was sent with.
        db.execute_sql("INSERT OR IGNORE INTO owed SELECT id, batch, created_at FROM idempotency WHERE status = 0")
        db.execute_sql("DELETE FROM idempotency WHERE status = 0")
    if any(row[1] == "id" for row in db.execute_sql("PRAGMA table_info('audit')").fetchall()):
        with db.atomic():
            rebuild(db)


def rebuild(db):
    db.execute_sql(AUDIT)
    last = db.execute_sql("SELECT coalesce(max(rowid), 0) FROM audit").fetchone()[0]
    for after in range(0, last, PART):
        db.execute_sql(ACTS, (after, after + PART))
        if last > PART:
            log.info("audit: %d of %d rows are written anew", min(after + PART, last), last)
    db.execute_sql('DROP TABLE "audit"')
    db.execute_sql('ALTER TABLE "audit_new" RENAME TO "audit"')
    for index in INDEXES:
        db.execute_sql(index)
