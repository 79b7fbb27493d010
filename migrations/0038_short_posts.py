"""Posts and batches keep the numbers of their organization, profile and account, and not the ids.

The post log goes by the time and, within a millisecond, by the post's number, which SQLite has in every entry of an index
anyway: so indexes end in the time. Both tables are written anew, and so are their indexes.

They refer to others, and others to them, so references are not looked at meanwhile: which is said outside of a
transaction. So this one begins its own, and finds out whether it was done before. On a million posts it takes some
minutes, and the log tells how far it is.
"""

import logging

atomic = False
log = logging.getLogger("socialpub.store")
PART = 100_000

BATCH = """
    CREATE TABLE "batch_new" (
        "id" TEXT NOT NULL PRIMARY KEY,
        "organization" INTEGER NOT NULL REFERENCES "organization" ("number"),
        "request_id" TEXT,
        "created_at" INTEGER NOT NULL,
        "scheduled_at" INTEGER
    ) WITHOUT ROWID
"""
BATCHES = """
    INSERT INTO batch_new
    SELECT batch.id, organization.number, request_id, batch.created_at, scheduled_at
    FROM batch CROSS JOIN organization ON organization.id = batch.organization
    WHERE batch.id > ? AND batch.id <= ? ORDER BY batch.id
"""
POST = """
    CREATE TABLE "post_new" (
        "number" INTEGER NOT NULL PRIMARY KEY,
        "id" TEXT NOT NULL,
        "organization" INTEGER NOT NULL REFERENCES "organization" ("number"),
        "profile" INTEGER NOT NULL REFERENCES "profile" ("number"),
        "account" INTEGER NOT NULL REFERENCES "account" ("number"),
        "platform" TEXT NOT NULL,
        "batch" TEXT NOT NULL REFERENCES "batch" ("id"),
        "position" INTEGER NOT NULL,
        "status" TEXT NOT NULL,
        "text" TEXT NOT NULL,
        "text_fold" TEXT NOT NULL,
        "media" TEXT NOT NULL,
        "options" TEXT NOT NULL,
        "first_comment" TEXT,
        "scheduled_at" INTEGER,
        "next_attempt_at" INTEGER,
        "published_at" INTEGER,
        "platform_uri" TEXT,
        "platform_cid" TEXT,
        "url" TEXT,
        "first_comment_uri" TEXT,
        "first_comment_cid" TEXT,
        "error" TEXT,
        "error_code" TEXT,
        "warnings" TEXT NOT NULL,
        "attempts" INTEGER NOT NULL,
        "tries" INTEGER NOT NULL,
        "draft_at" INTEGER,
        "draft_nonce" INTEGER,
        "saved" TEXT,
        "created_at" INTEGER NOT NULL,
        "updated_at" INTEGER NOT NULL,
        "due_at" INTEGER
    )
"""
POSTS = """
    INSERT INTO post_new
    SELECT post.number, post.id, organization.number, profile.number, account.number, post.platform, batch, position,
        post.status, text, text_fold, media, options, first_comment, scheduled_at, next_attempt_at, published_at, platform_uri,
        platform_cid, url, first_comment_uri, first_comment_cid, error, error_code, warnings, attempts, tries, draft_at,
        draft_nonce, saved, post.created_at, post.updated_at, due_at
    FROM post CROSS JOIN organization ON organization.id = post.organization
    CROSS JOIN profile ON profile.id = post.profile CROSS JOIN account ON account.id = post.account
    WHERE post.number > ? AND post.number <= ? ORDER BY post.number
"""
OPEN = "status IN ('queued', 'validated', 'publishing')"
INDEXES = (
    'CREATE UNIQUE INDEX "post_id" ON "post" ("id")',
    'CREATE INDEX "post_organization_created_at" ON "post" ("organization", "created_at")',
    'CREATE INDEX "post_profile_created_at" ON "post" ("profile", "created_at")',
    'CREATE INDEX "post_organization_status_platform_created_at" '
    'ON "post" ("organization", "status", "platform", "created_at")',
    'CREATE INDEX "post_profile_status_platform_created_at" ON "post" ("profile", "status", "platform", "created_at")',
    'CREATE INDEX "post_number_status_error_code" ON "post" ("number", "status", "error_code")',
    'CREATE UNIQUE INDEX "post_batch_position" ON "post" ("batch", "position")',
    'CREATE INDEX "post_account_created_at" ON "post" ("account", "created_at")',
    'CREATE INDEX "post_organization_error_code" ON "post" '
    '("organization", "error_code", "status", "platform", "created_at") WHERE error_code IS NOT NULL',
    'CREATE INDEX "post_profile_error_code" ON "post" '
    '("profile", "error_code", "status", "platform", "created_at") WHERE error_code IS NOT NULL',
    f'CREATE INDEX "post_open" ON "post" (COALESCE("due_at", "scheduled_at", "created_at")) WHERE {OPEN}',
    f'CREATE INDEX "post_open_account" ON "post" ("account", "number") WHERE {OPEN}',
    'CREATE INDEX "post_scheduled" ON "post" ("account", "status", "scheduled_at") WHERE scheduled_at IS NOT NULL',
    'CREATE INDEX "post_organization_troubled" ON "post" ("organization", "updated_at") '
    "WHERE status IN ('failed', 'rejected')",
    'CREATE INDEX "post_profile_troubled" ON "post" ("profile", "updated_at") WHERE status IN (\'failed\', \'rejected\')',
)


def up(migrator, db):
    if any(row[1:3] == ("account", "INTEGER") for row in db.execute_sql("PRAGMA table_info('post')").fetchall()):
        return
    db.execute_sql("PRAGMA foreign_keys = 0")
    try:
        with db.atomic():
            rebuild(db)
    finally:
        db.execute_sql("PRAGMA foreign_keys = 1")


def rebuild(db):
    db.execute_sql(BATCH)
    copy_batches(db)
    db.execute_sql(POST)
    copy_posts(db)
    for table in ("batch", "post"):
        db.execute_sql(f'DROP TABLE "{table}"')
        db.execute_sql(f'ALTER TABLE "{table}_new" RENAME TO "{table}"')
    is_large = db.execute_sql("SELECT max(number) > ? FROM post", (PART,)).fetchone()[0]
    for place, index in enumerate(INDEXES, 1):
        db.execute_sql(index)
        if is_large:
            log.info("post: %d of %d indexes are made", place, len(INDEXES))


def drop_indexes(db, table):
    """What is copied goes at once, so that the file hardly grows and SQLite has no whole table to remember when it drops
    it: for that, rows are to stand in nothing but their table.
    """
    for (name,) in db.execute_sql(f"SELECT name FROM pragma_index_list('{table}') WHERE origin = 'c'").fetchall():
        db.execute_sql(f'DROP INDEX "{name}"')


def copy_batches(db):
    """By their ids: they have no numbers."""
    after, done = "", 0
    while True:
        ids = "SELECT id FROM batch WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?"
        last = db.execute_sql(ids, (after, PART - 1)).fetchone()
        upto = last[0] if last else db.execute_sql("SELECT coalesce(max(id), '') FROM batch").fetchone()[0]
        db.execute_sql(BATCHES, (after, upto))
        db.execute_sql("DELETE FROM batch WHERE id > ? AND id <= ?", (after, upto))
        if last is None:
            return
        after, done = upto, done + PART
        log.info("batch: %d rows are written anew", done)


def copy_posts(db):
    drop_indexes(db, "post")
    last = db.execute_sql("SELECT coalesce(max(number), 0) FROM post").fetchone()[0]
    for after in range(0, last, PART):
        db.execute_sql(POSTS, (after, after + PART))
        db.execute_sql("DELETE FROM post WHERE number > ? AND number <= ?", (after, after + PART))
        if last > PART:
            log.info("post: %d of %d rows are written anew", min(after + PART, last), last)
