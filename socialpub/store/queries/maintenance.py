"""Queries of the start, of sweeps and of periodic tasks.

Each reads from one end of an index that contains only open or expired rows, so it costs the same after a million posts.
"""

from socialpub.store.queries.id_columns import select_column, select_number

_ACCOUNT_NUMBER = select_number("account", "?")
IS_OPEN = "status IN ('queued', 'validated', 'publishing')"  # of the partial indexes of `post`
DUE_AT = "coalesce(due_at, scheduled_at, created_at)"
IS_WAITING_PIECE = "(thread_of IS NOT NULL AND previous IS NULL)"  # of a thread, for the piece before it: not due yet
OVERDUE_COLUMNS = ("id", "account", "platform", "saved", "due_at", "scheduled_at", "created_at")

# --- Posts ---------------------------------------------------------------------------------------------------------

FIND_OVERDUE = f"""
    SELECT {", ".join(select_column("post", column) for column in OVERDUE_COLUMNS)} FROM post
    WHERE {IS_OPEN} AND {DUE_AT} < ? AND NOT {IS_WAITING_PIECE} AND NOT EXISTS (
        SELECT 1 FROM intent WHERE intent.post = post.number AND (intent.outcome IS NULL OR intent.outcome = 'ok')
    )
    ORDER BY {DUE_AT}, number LIMIT ?
"""
FIND_WITHOUT_JOB = f"""
    SELECT id, {select_column("post", "account")}, {DUE_AT} FROM post
    WHERE {IS_OPEN} AND {DUE_AT} < ? AND NOT {IS_WAITING_PIECE}
        AND NOT EXISTS (SELECT 1 FROM job WHERE job.key = post.id)
    ORDER BY {DUE_AT} LIMIT ?
"""
FIND_DUE_ACCOUNTS = f"SELECT {select_column('post', 'account')} FROM post WHERE {IS_OPEN} AND {DUE_AT} <= ?"
# By its id or its public address.
NAMES_MEDIA = "(instr(media, 'med_') > 0 OR instr(options, 'med_') > 0)"
_MEDIA_ORGANIZATION = """(
    SELECT organization.number FROM media CROSS JOIN organization ON organization.id = media.organization
    WHERE media.id = ?1
)"""
FIND_POST_WITH_MEDIA = f"""
    SELECT id FROM post INDEXED BY post_open_media
    WHERE organization = {_MEDIA_ORGANIZATION} AND {IS_OPEN} AND {NAMES_MEDIA}
        AND (instr(media, ?1) > 0 OR instr(options, ?1) > 0) LIMIT 1
"""
_NAMED_ID = """substr(
    atom, CASE instr(atom, '/media/med_') WHEN 0 THEN instr(atom, 'med_') ELSE instr(atom, '/media/med_') + 7 END, 26
)"""  # of 26 characters, alone or within an address
# Files of an organization that nothing needs, oldest first: (organization, profile or null: of all, stored and needed
# before, at most).
FIND_UNUSED_OF_ORGANIZATION = f"""
    WITH named AS MATERIALIZED (
        SELECT {_NAMED_ID} AS id FROM post INDEXED BY post_open_media CROSS JOIN json_tree(post.media)
        WHERE organization = {select_number("organization", "?1")} AND {IS_OPEN} AND {NAMES_MEDIA} AND type = 'text'
        UNION
        SELECT {_NAMED_ID} FROM post INDEXED BY post_open_media CROSS JOIN json_tree(post.options)
        WHERE organization = {select_number("organization", "?1")} AND {IS_OPEN} AND {NAMES_MEDIA} AND type = 'text'
    )
    SELECT id, sha256, size_bytes FROM media
    WHERE organization = ?1 AND (?2 IS NULL OR profile = ?2) AND deleted_at IS NULL AND used_at < ?3
        AND id NOT IN (SELECT id FROM named)
        AND NOT EXISTS (SELECT 1 FROM draft_media WHERE draft_media.media = media.id)
    ORDER BY created_at, id LIMIT ?4
"""
FIND_DRAFT_WITH_MEDIA = "SELECT draft FROM draft_media WHERE media = ? LIMIT 1"
FIND_WAITING = f"""
    SELECT id, platform, saved FROM post
    WHERE account = {_ACCOUNT_NUMBER} AND {IS_OPEN} AND status IN ('queued', 'validated') AND updated_at <= ?
    ORDER BY number LIMIT ?
"""
COUNT_WAITING = f"""
    SELECT count(*) FROM post
    WHERE account = {_ACCOUNT_NUMBER} AND {IS_OPEN} AND status IN ('queued', 'validated') AND updated_at <= ?
"""
# Of an account: being published, or sent with an outcome that is not known yet.
COUNT_IN_FLIGHT = f"""
    SELECT count(*) FROM post WHERE account = {_ACCOUNT_NUMBER} AND {IS_OPEN} AND (
        status = 'publishing'
        OR EXISTS (SELECT 1 FROM intent WHERE intent.post = post.number AND intent.outcome IS NULL)
    )
"""
FIND_NEWEST_POST = "SELECT max(number) FROM post"

# --- Idempotency ----------------------------------------------------------------------------------------------------

FIND_INTERRUPTED_REQUESTS = """
    SELECT batch FROM idempotency
    WHERE status IS NULL AND batch IS NOT NULL AND abs(created_at - ?) >= ?
    AND NOT EXISTS (SELECT 1 FROM job WHERE job.key = 'answer:' || idempotency.batch)
"""
FIND_UNANSWERED_REQUEST = "SELECT id FROM idempotency WHERE batch = ? AND status IS NULL"
DELETE_IDEMPOTENCY = """
    DELETE FROM idempotency
    WHERE id IN (SELECT id FROM idempotency WHERE ends_at <= ? AND status IS NOT NULL ORDER BY ends_at LIMIT ?)
"""

DELETE_PLAN_TOKENS = """
    DELETE FROM plan_token WHERE id IN (SELECT id FROM plan_token WHERE ends_at <= ? ORDER BY ends_at LIMIT ?)
"""

DELETE_UNACKNOWLEDGED = "DELETE FROM owed WHERE created_at <= ?"  # few rows: most responses arrive at once

# --- Heartbeat -------------------------------------------------------------------------------------------------

FIND_NEWEST_EVENT = "SELECT max(number) FROM event"
FIND_NEWEST_EVENT_TIME = "SELECT created_at FROM event WHERE number = (SELECT max(number) FROM event)"

# --- Audit log --------------------------------------------------------------------------------------------------

# By organization, through its index; the last statement: entries without one.
DELETE_AUDIT = """
    DELETE FROM audit WHERE number IN (
        WITH RECURSIVE whose (id) AS (
            SELECT min(organization) FROM audit
            UNION ALL
            SELECT (SELECT min(organization) FROM audit WHERE organization > whose.id) FROM whose WHERE id IS NOT NULL
        )
        SELECT audit.number FROM whose CROSS JOIN audit ON audit.organization IS whose.id AND audit.at < ? LIMIT ?
    )
"""

# --- History, in parts: the rows after ?1 up to ?2 that are older than ?3 ------------------------------------


def select_range(table: str, time: str) -> str:
    """Return the query of the next rows after a rowid: the last rowid, and the oldest time."""
    return f"""
    SELECT max(place), min(at) FROM (
        SELECT rowid AS place, {time} AS at FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT ?
    )
"""


FIND_EVENT_RANGE = select_range("event", "created_at")
FIND_INTENT_RANGE = select_range("intent", "intent_at")
FIND_ATTEMPT_RANGE = select_range("attempt", "started_at")
FIND_NOTIFICATION_RANGE = select_range("notification", "created_at")
_IS_EXPIRED_DELIVERY = """event > ?1 AND event <= ?2 AND created_at < ?3
    AND (status <> 'pending' OR endpoint IN (SELECT id FROM webhook_endpoint WHERE NOT active))"""
DELETE_WEBHOOK_ATTEMPTS = (
    f"DELETE FROM webhook_attempt WHERE delivery IN (SELECT number FROM webhook_delivery WHERE {_IS_EXPIRED_DELIVERY})"
)
DELETE_DELIVERIES = f"DELETE FROM webhook_delivery WHERE {_IS_EXPIRED_DELIVERY}"
# Not the newest event, whose number the next one would reuse.
DELETE_EVENTS = f"""
    DELETE FROM event
    WHERE number > ?1 AND number <= ?2 AND created_at < ?3 AND number < (SELECT max(number) FROM event)
    AND NOT EXISTS (SELECT 1 FROM post WHERE post.number = event.post AND {IS_OPEN})
    AND NOT EXISTS (SELECT 1 FROM webhook_delivery WHERE webhook_delivery.event = event.number)
"""
DELETE_NOTIFICATIONS = """
    DELETE FROM notification
    WHERE number > ?1 AND number <= ?2 AND created_at < ?3
    AND (status <> 'pending' OR channel IN (SELECT id FROM notification_channel WHERE NOT active))
"""
DELETE_INTENTS = """
    DELETE FROM intent
    WHERE rowid > ?1 AND rowid <= ?2 AND intent_at < ?3
    AND EXISTS (SELECT 1 FROM post WHERE post.number = intent.post AND post.status = 'published')
    AND NOT EXISTS (
        SELECT 1 FROM intent AS other
        WHERE other.post = intent.post AND (other.outcome IS NULL OR other.outcome = 'unknown')
    )
"""
DELETE_ATTEMPTS = """
    DELETE FROM attempt
    WHERE rowid > ?1 AND rowid <= ?2 AND started_at < ?3
    AND EXISTS (SELECT 1 FROM post WHERE post.number = attempt.post AND post.status = 'published')
    AND NOT EXISTS (SELECT 1 FROM intent WHERE intent.post = attempt.post AND intent.attempt = attempt.number)
"""

# --- Jobs and media ------------------------------------------------------------------------------------------------

RELEASE_LEASES = "UPDATE job SET visible_at = ?, epoch = NULL WHERE epoch IS NOT NULL"
FIND_UNUSED_MEDIA = "SELECT id, sha256 FROM media WHERE deleted_at IS NULL AND used_at < ? ORDER BY used_at LIMIT ?"
TOUCH_MEDIA = "UPDATE media SET used_at = ? WHERE id = ?"
# Not before the posts that may name it, even if the clock was set back: retention compares these times.
SET_MEDIA_DELETED = f"""
    UPDATE media SET deleted_at = max(?1, coalesce((
        SELECT created_at FROM post WHERE post.organization = {select_number("organization", "media.organization")}
        ORDER BY created_at DESC LIMIT 1
    ), 0)) WHERE id = ?2
"""
FIND_SMALLEST_MEDIA = "SELECT min(size_bytes) FROM media WHERE deleted_at IS NULL"
