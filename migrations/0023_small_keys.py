"""Attempts and intents are numbered: what only the program refers to needs no UUID, and no second tree to find it by.

An intent names its attempt by the number that the attempt has of their post. Both tables are written anew, in the order
in which their rows were made. It is one transaction: whoever interrupts it finds everything as it was. On a million posts
it takes half a minute, and the log tells how far it is.
"""

import logging

log = logging.getLogger("socialpub.store")
PART = 100_000

INTENT = """
    CREATE TABLE "intent_new" (
        "id" INTEGER NOT NULL PRIMARY KEY,
        "post" TEXT NOT NULL REFERENCES "post" ("id"),
        "attempt" INTEGER NOT NULL,
        "account" TEXT NOT NULL REFERENCES "account" ("id"),
        "step" TEXT NOT NULL,
        "number" INTEGER NOT NULL,
        "plan" TEXT NOT NULL,
        "epoch" INTEGER NOT NULL,
        "intent_at" INTEGER NOT NULL,
        "sent_at" INTEGER,
        "sends" INTEGER NOT NULL,
        "looks" INTEGER NOT NULL,
        "answered" INTEGER NOT NULL,
        "refusal" TEXT,
        "outcome" TEXT,
        "remote_id" TEXT,
        "result" TEXT,
        "evidence" TEXT,
        "settled_at" INTEGER,
        "settled_by" TEXT
    )
"""
# Of what is published, the post's row tells what was planned and what came of it; a first comment's post keeps both.
INTENTS = """
    INSERT INTO intent_new
    SELECT intent.rowid, intent.post, (SELECT number FROM attempt WHERE attempt.id = intent.attempt), intent.account, step,
        intent.number, CASE WHEN {over} THEN '' ELSE plan END, epoch, intent_at, sent_at, sends, looks, answered, refusal,
        outcome, remote_id, CASE WHEN {over} THEN NULL ELSE result END, evidence, settled_at, settled_by
    FROM intent JOIN post ON post.id = intent.post
    WHERE intent.rowid > ? AND intent.rowid <= ? ORDER BY intent.rowid
""".replace("{over}", "outcome = 'ok' AND post.status = 'published' AND (step = 'comment' OR first_comment IS NULL)")
ATTEMPT = """
    CREATE TABLE "attempt_new" (
        "place" INTEGER NOT NULL PRIMARY KEY,
        "id" TEXT NOT NULL,
        "post" TEXT NOT NULL REFERENCES "post" ("id"),
        "number" INTEGER NOT NULL,
        "started_at" INTEGER NOT NULL,
        "finished_at" INTEGER,
        "succeeded" INTEGER,
        "error_code" TEXT,
        "error_message" TEXT,
        "platform_response" TEXT
    )
"""
ATTEMPTS = """
    INSERT INTO attempt_new
    SELECT rowid, id, post, number, started_at, finished_at, succeeded, error_code, error_message, platform_response
    FROM attempt WHERE rowid > ? AND rowid <= ? ORDER BY rowid
"""
INDEXES = (
    'CREATE UNIQUE INDEX "attempt_post_number" ON "attempt" ("post", "number")',
    'CREATE UNIQUE INDEX "intent_post_step_number" ON "intent" ("post", "step", "number")',
    'CREATE UNIQUE INDEX "intent_open" ON "intent" ("post", "step") WHERE outcome IS NULL',
    'CREATE UNIQUE INDEX "intent_remote" ON "intent" ("account", "remote_id") WHERE remote_id IS NOT NULL',
    'CREATE INDEX "intent_unknown" ON "intent" ("account") WHERE outcome = \'unknown\'',
)


def up(migrator, db):
    db.execute_sql(INTENT)
    copy(db, "intent", INTENTS)
    db.execute_sql(ATTEMPT)
    copy(db, "attempt", ATTEMPTS)
    for table in ("intent", "attempt"):
        db.execute_sql(f'DROP TABLE "{table}"')
        db.execute_sql(f'ALTER TABLE "{table}_new" RENAME TO "{table}"')
    for index in INDEXES:
        db.execute_sql(index)


def copy(db, table, statement):
    last = db.execute_sql(f"SELECT coalesce(max(rowid), 0) FROM {table}").fetchone()[0]
    for after in range(0, last, PART):
        db.execute_sql(statement, (after, after + PART))
        if last > PART:
            log.info("%s: %d of %d rows are written anew", table, min(after + PART, last), last)
