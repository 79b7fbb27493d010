"""A publish request: what it names, what the log says of that, and the rows of its batch.

Rows of many values are bound one by one: out of a JSON list SQLite would parse each row again for each of its columns.
"""

import functools
from collections.abc import Mapping

from socialpub.store.statements import webhooks
from socialpub.store.statements.ids import number_of

# Of a key: whether it was used; of a request without one: the same requests before it. `?3` and `?4` bound their ids.
_BEFORE = """
    EXISTS (SELECT 1 FROM idempotency WHERE id = ?1 AND (ends_at > ?2 OR status IS NULL)),
    (SELECT json_group_array(json_array(id, batch)) FROM (
        SELECT id, batch FROM idempotency WHERE id BETWEEN ?3 AND ?4 AND created_at > ?5 ORDER BY created_at
    ))
"""

_ACCOUNT = "id, organization, profile, platform, platform_account_id, display_name, status, ends_at, extra, created_at"

_BY_ID = f"""
    SELECT {_ACCOUNT} FROM account
    WHERE id IN (SELECT value FROM json_each(?9)) AND +organization = ?6 AND disconnected_at IS NULL
        AND (?7 IS NULL OR profile = ?7)
"""
_BY_PLATFORM = f"""
    SELECT {_ACCOUNT} FROM (SELECT value AS wanted FROM json_each(?10)) CROSS JOIN account ON platform = wanted
    WHERE organization = ?6 AND disconnected_at IS NULL AND (?7 IS NULL OR profile = ?7)
"""


def _named(accounts: str) -> str:
    return f"""
    SELECT {_BEFORE},
    (SELECT paused FROM instance WHERE id = 1),
    EXISTS (SELECT 1 FROM profile WHERE id = ?8 AND organization = ?6 AND deleted_at IS NULL),
    (SELECT json_group_array(json_array(
        id, organization, profile, platform, platform_account_id, display_name, ends_at, extra
    )) FROM ({accounts} ORDER BY created_at, id)),
    (SELECT tier FROM organization WHERE id = ?6),
    (SELECT posts FROM usage WHERE organization = ?6 AND period = ?11)
"""


# ?6 organization, ?7 a profile to look in (or null), ?8 the profile that is named, ?9 ids, ?10 platforms, ?11 month.
NAMED = _named(f"{_BY_ID} UNION {_BY_PLATFORM}")
NAMED_BY_ID = _named(_BY_ID)  # where no target names a platform

# `size_bytes > 0` names the index that answers it.
MEDIA_HELD = """
    SELECT COALESCE(SUM(size_bytes), 0) FROM media WHERE organization = ?1 AND deleted_at IS NULL AND size_bytes > 0
"""

# `+`: SQLite is to go by the ids, and would read all that the organization has.
MEDIA = """
    SELECT
        id, organization, profile, content_type, kind, size_bytes, sha256, width, height, frames, duration_ms, alt_text,
        created_at, deleted_at, frame_rate, bit_rate, video_codec, audio_codec, has_audio, used_at
    FROM media WHERE id IN (SELECT value FROM json_each(?)) AND +organization = ? AND deleted_at IS NULL
"""

USED = "UPDATE media SET used_at = ? WHERE id IN (SELECT value FROM json_each(?))"

# States are named, and not those that are left out: the index of scheduled posts has their times for each state.

# Of an account ?1, or of all accounts of a platform ?3: when their posts since ?2 go out, and which texts they had.
_THE_ACCOUNT = number_of("account", "?1")
_ACCOUNTS = "(SELECT number FROM account WHERE id = ?1 UNION ALL SELECT number FROM account WHERE platform = ?3)"
LATELY = f"""
    SELECT
    (SELECT json_group_array(at) FROM (
        SELECT created_at AS at FROM post
        WHERE account IN {_ACCOUNTS}
            AND scheduled_at IS NULL AND created_at > ?2 AND status NOT IN ('canceled', 'rejected')
        UNION ALL
        SELECT scheduled_at FROM post
        WHERE account IN {_ACCOUNTS}
            AND scheduled_at > ?2 AND status IN ('queued', 'validated', 'publishing', 'published', 'failed')
    )),
    (SELECT json_group_array(text) FROM post WHERE account = {_THE_ACCOUNT} AND created_at > ?2)
"""

# Of each [account, text]: the newest post since ?2 with it that is out, may be, or will be.
REPEATED = """
    WITH sought (account, text) AS MATERIALIZED (
        SELECT (SELECT number FROM account WHERE id = value ->> 0), value ->> 1 FROM json_each(?1)
    )
    SELECT json_group_array((
        SELECT id FROM post
        WHERE account = sought.account AND created_at > ?2 AND text = sought.text AND (
            status NOT IN ('canceled', 'failed', 'rejected')
            OR json_extract(error, '$.rule') = 'publish.outcome_unknown'
        )
        ORDER BY created_at DESC LIMIT 1
    )) FROM sought
"""

# Posts to an account that go out after ?2 and up to ?3, as many as ?4 of each kind.
RECENT = f"""
    SELECT
    (SELECT count(*) FROM (
        SELECT 1 FROM post
        WHERE account = {_THE_ACCOUNT} AND scheduled_at IS NULL AND created_at > ?2 AND created_at <= ?3
            AND status <> 'canceled'
        LIMIT ?4
    )) + (SELECT count(*) FROM (
        SELECT 1 FROM post WHERE account = {_THE_ACCOUNT} AND scheduled_at > ?2 AND scheduled_at <= ?3
            AND status IN ('queued', 'validated', 'publishing', 'published', 'failed', 'rejected')
        LIMIT ?4
    ))
"""

# What may have changed since: `_BEFORE`, how many of the accounts ?6 are there, the media ?7, the newest post, and who
# is told.
STILL = f"""
    SELECT {_BEFORE},
    (SELECT count(*) FROM account WHERE id IN (SELECT value FROM json_each(?6)) AND disconnected_at IS NULL),
    (SELECT json_group_array(json_array(id, profile)) FROM media
        WHERE id IN (SELECT value FROM json_each(?7)) AND +organization = ?8 AND deleted_at IS NULL),
    (SELECT tier FROM organization WHERE id = ?8),
    (SELECT created_at FROM post
        WHERE organization = {number_of("organization", "?8")} ORDER BY created_at DESC LIMIT 1),
    (SELECT json_group_array(json_array(id, profile, events, is_channel)) FROM ({webhooks.receivers_of("?8")}))
"""

# One update decides, so that two requests cannot take the last place twice. No row: it would be more than ?4.
TAKE_QUOTA = """
    INSERT INTO usage (organization, period, posts, warned, exceeded)
    SELECT ?1, ?2, ?3, 0, 0 WHERE ?4 IS NULL OR ?3 <= ?4
    ON CONFLICT (organization, period) DO UPDATE SET posts = posts + excluded.posts
        WHERE ?4 IS NULL OR posts + excluded.posts <= ?4
    RETURNING posts, warned, exceeded
"""
USED_QUOTA = "SELECT posts FROM usage WHERE organization = ? AND period = ?"
TOLD_QUOTA = "UPDATE usage SET warned = 1, exceeded = ? WHERE organization = ? AND period = ?"
TIER = "SELECT tier FROM organization WHERE id = ?"

# A record of the same id that has lapsed is replaced.
REMEMBER = """
    INSERT OR REPLACE INTO idempotency
    (id, organization, fingerprint, status, body, sealed, batch, created_at, ends_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

FORGET = "DELETE FROM idempotency WHERE id IN (SELECT value FROM json_each(?))"
SAME = "SELECT id, batch FROM idempotency WHERE id BETWEEN ? AND ? AND created_at > ? ORDER BY created_at"
KEPT = """
    SELECT id, organization, fingerprint, status, body, sealed, batch, created_at, ends_at FROM idempotency
    WHERE id = ? AND (ends_at > ? OR status IS NULL)
"""
KEEP = "UPDATE idempotency SET status = ?, body = ?, sealed = ? WHERE id = ? AND status IS NULL"

BATCH = f"""
    INSERT INTO batch (id, organization, request_id, created_at, scheduled_at)
    VALUES (?, {number_of("organization", "?")}, ?, ?, ?)
"""

_POST = 11  # values that are each post's own
_OF_POST = {1: "profile", 2: "account"}  # which of them are ids of rows whose numbers are kept
_EVENT = 5
_JOB = 4


# ?1 organization, ?2 batch, ?3 status, ?4 scheduled_at, ?5 now; then of each post what is its own.
@functools.cache
def posts(count: int) -> str:
    """The rows of so many posts."""
    return f"""
    INSERT INTO post (
        id, profile, account, platform, position, text, text_fold, media, options, first_comment, warnings,
        organization, batch, status, scheduled_at, created_at, updated_at, attempts, tries
    )
    VALUES {_rows(count, _POST, f"{number_of('organization', '?1')}, ?2, ?3, ?4, ?5, ?5, 0, 0", given=5, of=_OF_POST)}
"""


# ?1 organization, ?2 request, ?3 now; then of each event [id, profile, type, post, data].
@functools.cache
def events(count: int) -> str:
    """The rows of so many events."""
    return f"""
    INSERT INTO event (id, profile, type, post, data, organization, request_id, created_at)
    VALUES {_rows(count, _EVENT, "?1, ?2, ?3", given=3)}
"""


# ?1 kind, ?2 visible_at, ?3 claims, ?4 epoch; then of each job [key, lane, host, owner].
@functools.cache
def jobs(count: int) -> str:
    """The rows of so many jobs."""
    return f"""
    INSERT INTO job (key, lane, host, owner, kind, visible_at, claims, epoch)
    VALUES {_rows(count, _JOB, "?1, ?2, ?3, ?4", given=4)}
"""


def _rows(count: int, own: int, shared: str, given: int, of: Mapping[int, str] | None = None) -> str:
    """So many rows: each has its own values, and the first `given` are shared.

    `of`: which of its own are kept as the numbers of a table's rows.
    """
    numbered = of or {}

    def value(first: int, at: int) -> str:
        return number_of(numbered[at], f"?{first + at}") if at in numbered else f"?{first + at}"

    firsts = range(given + 1, given + 1 + count * own, own)
    return ", ".join(f"({', '.join(value(first, at) for at in range(own))}, {shared})" for first in firsts)


AUDIT = """
    INSERT INTO audit (id, at, organization, key, user, verb, subject, address, request_id)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
