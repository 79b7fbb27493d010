"""What is looked for at a start, in every sweep and by periodic tasks: of rows that are open, or past their time.

Each goes off one end of an index that holds nothing else, so that it costs the same after a million posts.
"""

from socialpub.store.statements.ids import number_of, told

_ACCOUNT = number_of("account", "?")
OPEN = "status IN ('queued', 'validated', 'publishing')"  # as the partial indexes of `post` have it, word for word
DUE = "coalesce(due_at, scheduled_at, created_at)"
OVERDUE_COLUMNS = ("id", "account", "platform", "saved", "due_at", "scheduled_at", "created_at")

# --- Posts ---------------------------------------------------------------------------------------------------------

OVERDUE = f"""
    SELECT {", ".join(told("post", column) for column in OVERDUE_COLUMNS)} FROM post
    WHERE {OPEN} AND {DUE} < ? AND NOT EXISTS (
        SELECT 1 FROM intent WHERE intent.post = post.number AND (intent.outcome IS NULL OR intent.outcome = 'ok')
    )
    ORDER BY {DUE}, number LIMIT ?
"""
UNRUNG = f"""
    SELECT id, {told("post", "account")}, {DUE} FROM post
    WHERE {OPEN} AND {DUE} < ? AND NOT EXISTS (SELECT 1 FROM job WHERE job.key = post.id)
    ORDER BY {DUE} LIMIT ?
"""
ACCOUNTS_WANTED = f"SELECT {told('post', 'account')} FROM post WHERE {OPEN} AND {DUE} <= ?"
NAMES_MEDIA = f"SELECT id FROM post WHERE {OPEN} AND (instr(media, ?1) > 0 OR instr(options, ?1) > 0) LIMIT 1"
WAITING_OF_ACCOUNT = f"""
    SELECT id, platform, saved FROM post
    WHERE account = {_ACCOUNT} AND {OPEN} AND status IN ('queued', 'validated') AND updated_at <= ?
    ORDER BY number LIMIT ?
"""
WAITING_COUNT = f"""
    SELECT count(*) FROM post
    WHERE account = {_ACCOUNT} AND {OPEN} AND status IN ('queued', 'validated') AND updated_at <= ?
"""
# Of an account: being published, or sent with an outcome that is not known yet.
IN_FLIGHT = f"""
    SELECT count(*) FROM post WHERE account = {_ACCOUNT} AND {OPEN} AND (
        status = 'publishing'
        OR EXISTS (SELECT 1 FROM intent WHERE intent.post = post.number AND intent.outcome IS NULL)
    )
"""
ANY_POST = "SELECT max(number) FROM post"

# --- Answers -------------------------------------------------------------------------------------------------------

INTERRUPTED = """
    SELECT batch FROM idempotency
    WHERE status IS NULL AND batch IS NOT NULL AND abs(created_at - ?) >= ?
    AND NOT EXISTS (SELECT 1 FROM job WHERE job.key = 'answer:' || idempotency.batch)
"""
UNANSWERED = "SELECT id FROM idempotency WHERE batch = ? AND status IS NULL"
FORGET_ANSWERS = """
    DELETE FROM idempotency
    WHERE id IN (SELECT id FROM idempotency WHERE ends_at <= ? AND status IS NOT NULL ORDER BY ends_at LIMIT ?)
"""

FORGET_OWED = "DELETE FROM owed WHERE created_at <= ?"  # there are few: most are heard at once

# --- Signs of life -------------------------------------------------------------------------------------------------

NEWEST_EVENT = "SELECT max(number) FROM event"
NEWEST_EVENT_AT = "SELECT created_at FROM event WHERE number = (SELECT max(number) FROM event)"

# --- What is over --------------------------------------------------------------------------------------------------

# Organization by organization, each by its index; the last is nobody's.
FORGET_AUDIT = """
    DELETE FROM audit WHERE number IN (
        WITH RECURSIVE whose (id) AS (
            SELECT min(organization) FROM audit
            UNION ALL
            SELECT (SELECT min(organization) FROM audit WHERE organization > whose.id) FROM whose WHERE id IS NOT NULL
        )
        SELECT audit.number FROM whose CROSS JOIN audit ON audit.organization IS whose.id AND audit.at < ? LIMIT ?
    )
"""

# --- History, in parts: the rows after ?1 up to ?2, of those what is older than ?3 ------------------------------------

PART_OF_EVENTS = """
    SELECT max(place), min(at) FROM (
        SELECT number AS place, created_at AS at FROM event WHERE number > ? ORDER BY number LIMIT ?
    )
"""
PART_OF_INTENTS = """
    SELECT max(place), min(at) FROM (
        SELECT rowid AS place, intent_at AS at FROM intent WHERE rowid > ? ORDER BY rowid LIMIT ?
    )
"""
PART_OF_ATTEMPTS = """
    SELECT max(place), min(at) FROM (
        SELECT rowid AS place, started_at AS at FROM attempt WHERE rowid > ? ORDER BY rowid LIMIT ?
    )
"""
PART_OF_NOTIFICATIONS = """
    SELECT max(place), min(at) FROM (
        SELECT number AS place, created_at AS at FROM notification WHERE number > ? ORDER BY number LIMIT ?
    )
"""
_DELIVERED = """event > ?1 AND event <= ?2 AND created_at < ?3
    AND (status <> 'pending' OR endpoint IN (SELECT id FROM webhook_endpoint WHERE deleted_at IS NOT NULL))"""
FORGET_CALLS = f"DELETE FROM webhook_attempt WHERE delivery IN (SELECT number FROM webhook_delivery WHERE {_DELIVERED})"
FORGET_DELIVERIES = f"DELETE FROM webhook_delivery WHERE {_DELIVERED}"
# Not the newest, whose number the next would get again.
FORGET_EVENTS = f"""
    DELETE FROM event
    WHERE number > ?1 AND number <= ?2 AND created_at < ?3 AND number < (SELECT max(number) FROM event)
    AND NOT EXISTS (SELECT 1 FROM post WHERE post.number = event.post AND {OPEN})
    AND NOT EXISTS (SELECT 1 FROM webhook_delivery WHERE webhook_delivery.event = event.number)
"""
FORGET_NOTIFICATIONS = """
    DELETE FROM notification
    WHERE number > ?1 AND number <= ?2 AND created_at < ?3
    AND (status <> 'pending' OR channel IN (
        SELECT id FROM notification_channel WHERE deleted_at IS NOT NULL OR NOT active
    ))
"""
FORGET_INTENTS = """
    DELETE FROM intent
    WHERE rowid > ?1 AND rowid <= ?2 AND intent_at < ?3
    AND EXISTS (SELECT 1 FROM post WHERE post.number = intent.post AND post.status = 'published')
    AND NOT EXISTS (
        SELECT 1 FROM intent AS other
        WHERE other.post = intent.post AND (other.outcome IS NULL OR other.outcome = 'unknown')
    )
"""
FORGET_ATTEMPTS = """
    DELETE FROM attempt
    WHERE rowid > ?1 AND rowid <= ?2 AND started_at < ?3
    AND EXISTS (SELECT 1 FROM post WHERE post.number = attempt.post AND post.status = 'published')
    AND NOT EXISTS (SELECT 1 FROM intent WHERE intent.post = attempt.post AND intent.attempt = attempt.number)
"""

# --- Jobs and media ------------------------------------------------------------------------------------------------

FREE_LEASES = "UPDATE job SET visible_at = ?, epoch = NULL WHERE epoch IS NOT NULL"
UNUSED_MEDIA = "SELECT id, sha256 FROM media WHERE deleted_at IS NULL AND used_at < ? ORDER BY used_at LIMIT ?"
STILL_USED = "UPDATE media SET used_at = ? WHERE id = ?"
FORGET_MEDIA = "UPDATE media SET deleted_at = ? WHERE id = ?"
ANY_MEDIA = "SELECT min(size_bytes) FROM media WHERE deleted_at IS NULL"
