"""Notifications as an outbox, one per cause and window of time."""

from socialpub.store.queries.webhooks import bring_forward, select_delayed, select_of_scope, skip_downtime

# The latest notification of a cause on a channel: further events may join it.
FIND_NEWEST = """
    SELECT number, status, attempts, next_attempt_at, follows, window_ms, ends_at FROM notification
    WHERE channel = ? AND cause = ? ORDER BY number DESC LIMIT 1
"""
ADD_TO_NEWEST = "UPDATE notification SET count = count + 1, updated_at = ? WHERE number = ?"
INSERT = """
    INSERT INTO notification (id, channel, organization, profile, type, cause, data, count, follows, window_ms, ends_at,
        status, attempts, next_attempt_at, created_at, updated_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?9, ?10, 'pending', 0, ?11, ?12, ?12)
"""

# The channels for notifications that concern every organization.
FIND_ALL_CHANNELS = """
    SELECT id, organization, profile, accounts, events FROM notification_channel WHERE active AND deleted_at IS NULL
"""

FIND_CHANNEL = """
    SELECT id, organization, kind, secret FROM notification_channel WHERE id = ? AND active AND deleted_at IS NULL
"""
# The due notifications of a channel, in order, with the names for their texts; during a pause, of one type.
FIND_DUE = """
    SELECT n.number, n.id, n.type, n.data, n.count, n.follows, n.attempts, n.created_at,
        coalesce(a.display_name, a.platform_account_id)
    FROM notification n LEFT JOIN account a ON a.id = n.data ->> 'accountId'
    WHERE n.channel = ?1 AND n.status = 'pending' AND n.next_attempt_at <= ?2 AND (?3 IS NULL OR n.type = ?3)
        AND n.number NOT IN (SELECT value FROM json_each(?5))
    ORDER BY n.next_attempt_at, n.number LIMIT ?4
"""
# Channels with pending notifications, and their first due time.
FIND_NEXT_DUE = """
    SELECT c.id, (
        SELECT min(n.next_attempt_at) FROM notification n WHERE n.channel = c.id AND n.status = 'pending'
    ) AS due
    FROM notification_channel c WHERE c.active AND c.deleted_at IS NULL AND due IS NOT NULL
"""
FIND_NEXT_DUE_OF_CHANNEL = (
    "SELECT min(next_attempt_at) FROM notification WHERE channel = ? AND status = 'pending' AND next_attempt_at > ?"
)

FIND_DELAYED = select_delayed("notification_channel", "notification", "channel")
BRING_FORWARD = bring_forward("notification", "channel")
SKIP_DOWNTIME = skip_downtime("notification_channel")

# The result of an attempt, also on the channel.
RECORD_ATTEMPT = """
    UPDATE notification SET status = ?, next_attempt_at = ?, attempts = attempts + 1, last_status_code = ?,
        last_error = ?, updated_at = ?
    WHERE number = ?
"""
RECORD_SUCCESS = """
    UPDATE notification_channel SET last_delivery_at = ?, last_failure_reason = NULL, failing_since = NULL WHERE id = ?
"""
RECORD_FAILURE = """
    UPDATE notification_channel SET last_failure_reason = ?1, failing_since = coalesce(failing_since, ?2),
        active = active AND coalesce(failing_since, ?2) > ?3
    WHERE id = ?4 RETURNING active
"""

# The pending notifications of a deleted channel are not sent any more.
END_NOTIFICATIONS = """
    UPDATE notification SET status = 'failed', next_attempt_at = NULL, last_error = ?1, updated_at = ?2
    WHERE channel = ?3 AND status = 'pending'
        AND EXISTS (SELECT 1 FROM notification_channel WHERE id = ?3 AND deleted_at IS NOT NULL)
"""

# The log, newest first: the range of one page, and the rows in it that pass the filters.
FIND_PAGE_REACH = """
    SELECT min(number), count(*) FROM (
        SELECT number FROM notification
        WHERE organization = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3
    )
"""
PAGE = f"""
    SELECT n.number, n.id, n.channel, n.type, n.data, n.count, n.follows, n.status, n.attempts, n.next_attempt_at,
        n.last_status_code, n.last_error, n.created_at, n.updated_at, coalesce(a.display_name, a.platform_account_id)
    FROM notification n LEFT JOIN account a ON a.id = n.data ->> 'accountId'
    WHERE n.organization = ?1 AND n.number < ?2 AND n.number >= ?3
        AND (?4 IS NULL OR n.profile = ?4) AND (?5 IS NULL OR n.channel = ?5) AND n.created_at >= ?6
        AND (?7 = '[]' OR n.type IN (SELECT value FROM json_each(?7)))
        AND (?8 = '[]' OR n.status IN (SELECT value FROM json_each(?8)))
        AND (coalesce(?9, ?10) IS NULL OR n.channel IN ({select_of_scope("notification_channel", "?9", "?10")}))
    ORDER BY n.number DESC LIMIT ?11
"""
