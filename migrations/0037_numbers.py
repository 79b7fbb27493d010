"""Owners have numbers; attempts and intents keep those, and not ids.

An organization, a profile and an account each get a number of their own, which nothing changes. What an intent and an
attempt refer to is kept as that (their post has had one all along), an attempt's id as the 16 bytes that it stands for,
and what a platform calls the post that an intent has made as a hash: it has to be known again, and the post's row says
where it is.

Tables that others refer to are made anew, so references are not looked at meanwhile: which is said outside of a
transaction. So this one begins its own, and finds out whether it was done before. On a million posts it takes half a
minute, and the log tells how far it is.
"""

import hashlib
import logging
import re

atomic = False
log = logging.getLogger("socialpub.store")
PART = 100_000

OWNERS = {
    "organization": '"name" TEXT NOT NULL, "tier" TEXT NOT NULL, "created_at" INTEGER NOT NULL',
    "profile": '"organization" TEXT NOT NULL REFERENCES "organization" ("id"), "name" TEXT NOT NULL, "slug" TEXT NOT NULL, '
    '"created_at" INTEGER NOT NULL, "updated_at" INTEGER NOT NULL, "deleted_at" INTEGER',
    "account": '"organization" TEXT NOT NULL REFERENCES "organization" ("id"), '
    '"profile" TEXT NOT NULL REFERENCES "profile" ("id"), "platform" TEXT NOT NULL, "platform_account_id" TEXT NOT NULL, '
    '"display_name" TEXT, "status" TEXT NOT NULL, "secret" TEXT, "token_expires_at" INTEGER, "renewed_at" INTEGER, '
    '"ends_at" INTEGER, "renewal_at" INTEGER, "extra" TEXT NOT NULL, "created_at" INTEGER NOT NULL, '
    '"updated_at" INTEGER NOT NULL, "disconnected_at" INTEGER, "attention" TEXT, "renewals" TEXT, '
    '"renewal_refused_at" INTEGER, "renewing" TEXT, "renewing_until" INTEGER, "revoked_reason" TEXT',
}
INTENT = """
    CREATE TABLE "intent_new" (
        "id" INTEGER NOT NULL PRIMARY KEY,
        "post" INTEGER NOT NULL REFERENCES "post" ("number"),
        "attempt" INTEGER NOT NULL,
        "account" INTEGER NOT NULL REFERENCES "account" ("number"),
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
        "remote" INTEGER,
        "result" TEXT,
        "evidence" TEXT,
        "settled_at" INTEGER,
        "settled_by" TEXT
    )
"""
INTENTS = """
    INSERT INTO intent_new
    SELECT intent.id, post.number, attempt, account.number, step, intent.number, plan, epoch, intent_at, sent_at, sends, looks,
        answered, refusal, outcome, remote_of(remote_id), result, evidence, settled_at, settled_by
    FROM intent CROSS JOIN post ON post.id = intent.post CROSS JOIN account ON account.id = intent.account
    WHERE intent.id > ? AND intent.id <= ? ORDER BY intent.id
"""
ATTEMPT = """
    CREATE TABLE "attempt_new" (
        "place" INTEGER NOT NULL PRIMARY KEY,
        "id" BLOB NOT NULL,
        "post" INTEGER NOT NULL REFERENCES "post" ("number"),
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
    SELECT place, bytes_of(attempt.id), post.number, attempt.number, started_at, finished_at, succeeded, attempt.error_code,
        error_message, platform_response
    FROM attempt CROSS JOIN post ON post.id = attempt.post WHERE place > ? AND place <= ? ORDER BY place
"""
OWNERS_INDEXES = (
    'CREATE UNIQUE INDEX "organization_id" ON "organization" ("id")',
    'CREATE UNIQUE INDEX "profile_id" ON "profile" ("id")',
    'CREATE UNIQUE INDEX "profile_organization_slug" ON "profile" ("organization", "slug")',
    'CREATE UNIQUE INDEX "account_id" ON "account" ("id")',
    'CREATE INDEX "account_organization_profile_platform" ON "account" ("organization", "profile", "platform")',
    'CREATE UNIQUE INDEX "account_profile_platform_platform_account_id" '
    'ON "account" ("profile", "platform", "platform_account_id")',
)
INDEXES = (
    'CREATE UNIQUE INDEX "attempt_post_number" ON "attempt" ("post", "number")',
    'CREATE UNIQUE INDEX "intent_post_step_number" ON "intent" ("post", "step", "number")',
    'CREATE UNIQUE INDEX "intent_open" ON "intent" ("post", "step") WHERE outcome IS NULL',
    'CREATE UNIQUE INDEX "intent_remote" ON "intent" ("account", "remote") WHERE remote IS NOT NULL',
    'CREATE INDEX "intent_unknown" ON "intent" ("account") WHERE outcome = \'unknown\'',
)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def up(migrator, db):
    if any(row[1] == "number" for row in db.execute_sql("PRAGMA table_info('account')").fetchall()):
        return
    db.execute_sql("PRAGMA foreign_keys = 0")
    try:
        with db.atomic():
            rebuild(db)
    finally:
        db.execute_sql("PRAGMA foreign_keys = 1")


def rebuild(db):
    db.connection().create_function("remote_of", 1, remote_of, deterministic=True)
    db.connection().create_function("bytes_of", 1, bytes_of, deterministic=True)
    for table, columns in OWNERS.items():
        number_owners(db, table, columns)
    put_in_place(db, OWNERS, OWNERS_INDEXES)
    db.execute_sql(INTENT)
    copy(db, "intent", "id", INTENTS)
    db.execute_sql(ATTEMPT)
    copy(db, "attempt", "place", ATTEMPTS)
    put_in_place(db, ("intent", "attempt"), INDEXES)


def put_in_place(db, tables, indexes):
    for table in tables:
        db.execute_sql(f'DROP TABLE "{table}"')
        db.execute_sql(f'ALTER TABLE "{table}_new" RENAME TO "{table}"')
    for index in indexes:
        db.execute_sql(index)


def number_owners(db, table, columns):
    names = ", ".join(f'"{row[1]}"' for row in db.execute_sql(f"PRAGMA table_info('{table}')").fetchall())
    db.execute_sql(f'CREATE TABLE "{table}_new" ("number" INTEGER NOT NULL PRIMARY KEY, "id" TEXT NOT NULL, {columns})')
    db.execute_sql(f'INSERT INTO "{table}_new" ({names}) SELECT {names} FROM "{table}" ORDER BY rowid')


def drop_indexes(db, table):
    """What is copied goes at once, so that the file hardly grows and SQLite has no whole table to remember when it drops
    it: for that, rows are to stand in nothing but their table.
    """
    for (name,) in db.execute_sql(f"SELECT name FROM pragma_index_list('{table}') WHERE origin = 'c'").fetchall():
        db.execute_sql(f'DROP INDEX "{name}"')


def copy(db, table, key, statement):
    drop_indexes(db, table)
    last = db.execute_sql(f"SELECT coalesce(max({key}), 0) FROM {table}").fetchone()[0]
    for after in range(0, last, PART):
        db.execute_sql(statement, (after, after + PART))
        db.execute_sql(f"DELETE FROM {table} WHERE {key} > ? AND {key} <= ?", (after, after + PART))
        if last > PART:
            log.info("%s: %d of %d rows are written anew", table, min(after + PART, last), last)


def remote_of(remote_id):
    if remote_id is None:
        return None
    return int.from_bytes(hashlib.sha256(remote_id.encode()).digest()[:8], "big", signed=True)


def bytes_of(id):
    return bytes.fromhex(id.replace("-", "")) if UUID.fullmatch(id) else id
