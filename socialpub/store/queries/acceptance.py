"""Accepting a publish request: references, the accounts' history, rows of the batch.

Rows of many values are bound one by one (`bulk.py`): from a JSON list SQLite would parse each row again for each
column.
"""

from socialpub.store import rows
from socialpub.store.queries.bulk import BulkInsert
from socialpub.store.queries.id_columns import select_column, select_id, select_number

_ACCOUNT_COLUMNS = (
    "number, id, organization, profile, platform, platform_account_id, display_name, status, ends_at, extra, created_at"
)

_BY_ID = f"""
    SELECT {_ACCOUNT_COLUMNS} FROM account
    WHERE id IN (SELECT value FROM json_each(?5)) AND +organization = ?1 AND disconnected_at IS NULL
        AND (?2 IS NULL OR profile = ?2)
"""
_BY_PLATFORM = f"""
    SELECT {_ACCOUNT_COLUMNS} FROM (SELECT value AS wanted FROM json_each(?4)) CROSS JOIN account ON platform = wanted
    WHERE organization = ?1 AND disconnected_at IS NULL AND (?2 IS NULL OR profile = ?2)
"""


def _select_references(accounts: str) -> str:
    return f"""
    SELECT
    (SELECT paused FROM instance WHERE id = 1),
    EXISTS (SELECT 1 FROM profile WHERE id = ?3 AND organization = ?1 AND deleted_at IS NULL),
    (SELECT json_group_array(json_array(
        json_array(
            {select_number("organization", "found.organization")}, {select_number("profile", "found.profile")}, number
        ),
        id, organization, profile, platform, platform_account_id, display_name, ends_at, extra
    )) FROM ({accounts} ORDER BY created_at, id) AS found),
    (SELECT tier FROM organization WHERE id = ?1)
"""


# ?1 organization, ?2 the profile to search (or null), ?3 the named profile, ?4 platforms, ?5 ids. An account comes with
# its number and those of its organization and profile.
FIND_REFERENCES = _select_references(f"{_BY_ID} UNION {_BY_PLATFORM}")
FIND_REFERENCES_BY_ID = _select_references(_BY_ID)  # if no target names a platform

# `size_bytes > 0` makes SQLite use the index with that condition.
SUM_MEDIA_BYTES = """
    SELECT COALESCE(SUM(size_bytes), 0) FROM media WHERE organization = ?1 AND deleted_at IS NULL AND size_bytes > 0
"""

# `+`: search by id, not through all media of the organization.
FIND_MEDIA = f"""
    SELECT {", ".join(rows.MediaRow.__annotations__)} FROM media
    WHERE id IN (SELECT value FROM json_each(?)) AND +organization = ? AND deleted_at IS NULL
"""

TOUCH_MEDIA = "UPDATE media SET used_at = ? WHERE id IN (SELECT value FROM json_each(?))"

# Times and texts of the posts since ?2 of account ?1, or of all accounts of platform ?3. Texts: also of the posts that
# are due from then to ?4, however long ago they were accepted. The states of scheduled posts are listed positively, as
# their index has their times for each state.
_ACCOUNT_NUMBER = select_number("account", "?1")
_ACCOUNT_NUMBERS = "(SELECT number FROM account WHERE id = ?1 UNION ALL SELECT number FROM account WHERE platform = ?3)"
FIND_RECENT_HISTORY = f"""
    SELECT
    (SELECT json_group_array(at) FROM (
        SELECT created_at AS at FROM post
        WHERE account IN {_ACCOUNT_NUMBERS}
            AND scheduled_at IS NULL AND created_at > ?2 AND status NOT IN ('canceled', 'rejected')
        UNION ALL
        SELECT scheduled_at FROM post
        WHERE account IN {_ACCOUNT_NUMBERS}
            AND scheduled_at > ?2 AND status IN ('queued', 'validated', 'publishing', 'published', 'failed')
    )),
    (SELECT json_group_array(text) FROM (
        SELECT text FROM post WHERE account = {_ACCOUNT_NUMBER} AND created_at > ?2
        UNION ALL
        SELECT text FROM post
        WHERE account = {_ACCOUNT_NUMBER} AND scheduled_at > ?2 AND scheduled_at <= ?4
            AND status IN ('queued', 'validated', 'publishing', 'published', 'failed')
    ))
"""

# For each [account, text] the newest post with it since ?2 that is, may be or will be published; else one that was
# accepted earlier and due since then.
FIND_DUPLICATES = """
    WITH sought (account, text) AS MATERIALIZED (
        SELECT (SELECT number FROM account WHERE id = value ->> 0), value ->> 1 FROM json_each(?1)
    )
    SELECT json_group_array(coalesce((
        SELECT id FROM post
        WHERE account = sought.account AND created_at > ?2 AND text = sought.text AND (
            status NOT IN ('canceled', 'failed', 'rejected')
            OR json_extract(error, '$.rule') = 'publish.outcome_unknown'
        )
        ORDER BY created_at DESC LIMIT 1
    ), (
        SELECT id FROM post
        WHERE account = sought.account AND scheduled_at > ?2 AND scheduled_at <= ?3 AND text = sought.text
            AND status IN ('validated', 'publishing', 'published', 'failed')
            AND (status <> 'failed' OR json_extract(error, '$.rule') = 'publish.outcome_unknown')
        ORDER BY scheduled_at DESC LIMIT 1
    ))) FROM sought
"""

# Posts of an account that are due after ?2 and up to ?3, at most ?4 of each kind.
COUNT_RECENT_POSTS = f"""
    SELECT
    (SELECT count(*) FROM (
        SELECT 1 FROM post
        WHERE account = {_ACCOUNT_NUMBER} AND scheduled_at IS NULL AND created_at > ?2 AND created_at <= ?3
            AND status <> 'canceled'
        LIMIT ?4
    )) + (SELECT count(*) FROM (
        SELECT 1 FROM post WHERE account = {_ACCOUNT_NUMBER} AND scheduled_at > ?2 AND scheduled_at <= ?3
            AND status IN ('queued', 'validated', 'publishing', 'published', 'failed', 'rejected')
        LIMIT ?4
    ))
"""

# For each of ?1, [id of a key, bounds of the ids of equal requests]: whether the key was used by ?2, and the equal
# requests since ?3.
FIND_EARLIER_REQUESTS = """
    SELECT json_group_array(json_array(
        EXISTS (SELECT 1 FROM idempotency AS kept
            WHERE kept.id = asked.value ->> 0 AND (kept.ends_at > ?2 OR kept.status IS NULL)),
        json((SELECT json_group_array(json_array(id, batch)) FROM (
            SELECT id, batch FROM owed
            WHERE id BETWEEN asked.value ->> 1 AND asked.value ->> 2 AND created_at > ?3 ORDER BY created_at
        )))
    )) FROM json_each(?1) AS asked
"""
# The existing ones of these accounts, with all columns.
FIND_CONNECTED_ACCOUNTS = f"""
    SELECT json_group_array(json_array(
        {", ".join(select_column("account", name) for name in rows.AccountRow.__annotations__)}
    ))
    FROM account WHERE id IN (SELECT value FROM json_each(?1)) AND disconnected_at IS NULL
"""
# Organization and profile of the existing ones of these media.
FIND_MEDIA_SCOPES = """
    SELECT json_group_array(json_array(id, organization, profile)) FROM media
    WHERE id IN (SELECT value FROM json_each(?1)) AND deleted_at IS NULL
"""
# Tier of an organization, and creation time of its newest post.
FIND_ORGANIZATION = """
    SELECT
        tier,
        (SELECT created_at FROM post WHERE post.organization = organization.number ORDER BY created_at DESC LIMIT 1)
    FROM organization WHERE id = ?
"""

# One atomic update, so that two requests cannot both take the last post of a quota. No row: it would exceed ?4.
TAKE_QUOTA = """
    INSERT INTO usage (organization, period, posts, warned, exceeded)
    SELECT ?1, ?2, ?3, 0, 0 WHERE ?4 IS NULL OR ?3 <= ?4
    ON CONFLICT (organization, period) DO UPDATE SET posts = posts + excluded.posts
        WHERE ?4 IS NULL OR posts + excluded.posts <= ?4
    RETURNING posts, warned, exceeded
"""
FIND_USED_QUOTA = "SELECT posts FROM usage WHERE organization = ? AND period = ?"
SET_QUOTA_NOTIFIED = "UPDATE usage SET warned = 1, exceeded = ? WHERE organization = ? AND period = ?"
FIND_TIER = "SELECT tier FROM organization WHERE id = ? AND deleted_at IS NULL"

# Replaces an expired record with the same id.
INSERT_IDEMPOTENCY = BulkInsert(
    "INSERT OR REPLACE INTO idempotency "
    "(id, organization, fingerprint, status, body, sealed, batch, created_at, ends_at)",
    own=9,
)

INSERT_UNACKNOWLEDGED = BulkInsert("INSERT OR REPLACE INTO owed (id, batch, created_at)", own=2, shared=1)
DELETE_UNACKNOWLEDGED = "DELETE FROM owed WHERE id IN (SELECT value FROM json_each(?))"
FIND_UNACKNOWLEDGED = "SELECT id, batch FROM owed WHERE id BETWEEN ? AND ? AND created_at > ? ORDER BY created_at"
FIND_IDEMPOTENCY = """
    SELECT id, organization, fingerprint, status, body, sealed, batch, created_at, ends_at FROM idempotency
    WHERE id = ? AND (ends_at > ? OR status IS NULL)
"""
SET_IDEMPOTENCY_RESPONSE = "UPDATE idempotency SET status = ?, body = ?, sealed = ? WHERE id = ? AND status IS NULL"

INSERT_BATCHES = BulkInsert(  # the organization's number
    "INSERT INTO batch (id, organization, request_id, scheduled_at, created_at)", own=4, shared=1
)

# The holder of an external id ?2 of organization ?1: its batch, the hash of its content, and its posts.
FIND_EXTERNAL_ID = f"""
    SELECT batch, content, (
        SELECT json_group_array(json_array(id, {select_id("profile", "profile")}, {select_id("account", "account")},
            platform, thread_of, status))
        FROM (SELECT * FROM post WHERE post.batch = external_id.batch ORDER BY position) AS post
    )
    FROM external_id WHERE organization = {select_number("organization", "?1")} AND id = ?2
"""
INSERT_EXTERNAL_IDS = BulkInsert("INSERT OR REPLACE INTO external_id (id, organization, batch, content)", own=4)
# Unexpired; a used one has its batch.
FIND_PLAN_TOKEN = """
    SELECT profile, request, content, batch FROM plan_token
    WHERE id = ? AND organization = ? AND ends_at > ?
"""
COUNT_PLAN_TOKENS = "SELECT count(*) FROM plan_token WHERE organization = ? AND ends_at > ? AND batch IS NULL"
INSERT_PLAN_TOKEN = """
    INSERT INTO plan_token (id, organization, profile, request, content, created_at, ends_at)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""
# Kept for as long as an Idempotency-Key.
USE_PLAN_TOKEN = "UPDATE plan_token SET batch = ?, ends_at = max(ends_at, ?) WHERE id = ?"
# Kind, hash and alt text of these media, deleted ones too.
FIND_MEDIA_CONTENT = """
    SELECT id, kind, sha256, alt_text FROM media
    WHERE id IN (SELECT value FROM json_each(?)) AND +organization = ?
"""

# Organization, profile and account are numbers. Shared: the time of acceptance. The last value of a post is its nonce:
# with one, its first attempt has started.
POST_COLUMNS = (
    "id",
    "organization",
    "profile",
    "account",
    "platform",
    "batch",
    "position",
    "status",
    "text",
    "text_fold",
    "media",
    "own_text",
    "own_media",
    "options",
    "first_comment",
    "external_id",
    "warnings",
    "scheduled_at",
    "thread_of",
    "thread_position",
    "draft_nonce",
)
INSERT_POSTS = BulkInsert(
    f"INSERT INTO post ({', '.join(POST_COLUMNS)}, created_at, updated_at, attempts, tries, draft_at)",
    own=len(POST_COLUMNS),
    shared=1,
    values="{own}, {shared}, {shared}, {last} IS NOT NULL, {last} IS NOT NULL, iif({last} IS NULL, NULL, {shared})",
)
# Shared: kind, claims, and the epoch of the server run that holds them from the start.
INSERT_JOBS = BulkInsert(
    "INSERT INTO job (key, serial_group, host, owner, visible_at, kind, claims, epoch)", own=5, shared=3
)
INSERT_AUDIT = BulkInsert(
    "INSERT INTO audit (verb, organization, key, user, subject, address, request_id, at)", own=7, shared=1
)
