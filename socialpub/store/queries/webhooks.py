"""Webhook endpoints, and deliveries as an outbox.

Deliveries are written with their event, and taken by endpoint in the order of their due times.
"""

from socialpub.store.queries.events import FULL_DATA


def select_within(accounts: str) -> str:
    """Return the condition that the accounts of a receiver are all in a JSON list."""
    listed = f"SELECT value FROM json_each({accounts})"
    return f"accounts IS NOT NULL AND NOT EXISTS (SELECT 1 FROM json_each(accounts) WHERE value NOT IN ({listed}))"


def select_of_scope(receivers: str, profile: str, accounts: str) -> str:
    """Return the subquery of the receivers of a profile and of accounts (null: any)."""
    return f"""
    SELECT id FROM {receivers}
    WHERE ({profile} IS NULL OR profile = {profile}) AND ({accounts} IS NULL OR {select_within(accounts)})
"""


# The active endpoints and channels of an organization.
FIND_RECEIVERS = """
    SELECT id, profile, accounts, events, 0 AS is_channel FROM webhook_endpoint
    WHERE organization = ?1 AND active AND deleted_at IS NULL
    UNION ALL
    SELECT id, profile, accounts, events, 1 FROM notification_channel
    WHERE organization = ?1 AND active AND deleted_at IS NULL
"""
# Of a JSON list of [id, endpoint, organization, profile, event, type, post, now].
INSERT_DELIVERIES = """
    INSERT INTO webhook_delivery (id, endpoint, organization, profile, event, type, post, status, attempts, tries,
        next_attempt_at, created_at, updated_at)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, 'pending', 0, 0,
        value ->> 7, value ->> 7, value ->> 7
    FROM json_each(?)
"""

# The due deliveries of an endpoint except the numbers ?4, in order, with all data of a call, as JSON.
FIND_DUE = f"""
    SELECT json_group_array(json_array(
        d.number, d.id, d.type, d.post, d.tries, d.next_attempt_at, event.number, d.organization, {FULL_DATA},
        event.created_at, coalesce(event.request_id, batch.request_id)
    ))
    FROM (
        SELECT number, id, type, post, tries, next_attempt_at, event, organization FROM webhook_delivery
        WHERE endpoint = ?1 AND status = 'pending' AND next_attempt_at <= ?2
            AND number NOT IN (SELECT value FROM json_each(?4))
        ORDER BY next_attempt_at, number LIMIT ?3
    ) AS d CROSS JOIN event ON event.number = d.event LEFT JOIN post ON post.number = event.post
    LEFT JOIN batch ON batch.id = post.batch
"""

# Endpoints with pending deliveries, and their first due time.
FIND_NEXT_DUE = """
    SELECT e.id, (
        SELECT min(d.next_attempt_at) FROM webhook_delivery d WHERE d.endpoint = e.id AND d.status = 'pending'
    ) AS due
    FROM webhook_endpoint e WHERE e.active AND e.deleted_at IS NULL AND due IS NOT NULL
"""
FIND_NEXT_DUE_OF_ENDPOINT = """
    SELECT min(next_attempt_at) FROM webhook_delivery
    WHERE endpoint = ? AND status = 'pending' AND next_attempt_at > ?
"""


def select_delayed(receivers: str, waiting: str, receiver: str) -> str:
    """Build the query for receivers with deliveries due after a time. `receiver`: column."""
    return f"""
        SELECT id FROM {receivers} WHERE EXISTS (
            SELECT 1 FROM {waiting}
            WHERE {receiver} = {receivers}.id AND status = 'pending' AND next_attempt_at > ?
        )
    """


def bring_forward(waiting: str, receiver: str) -> str:
    """Build the statement that brings a receiver's deliveries forward."""
    return f"""
        UPDATE {waiting} SET next_attempt_at = max(?1, next_attempt_at - ?2)
        WHERE {receiver} = ?3 AND status = 'pending' AND next_attempt_at > ?1
    """


def skip_downtime(receivers: str) -> str:
    """Build the statement after which the time without a server does not count as failing."""
    return f"UPDATE {receivers} SET failing_since = min(?1, failing_since + ?2) WHERE failing_since <= ?1"


FIND_DELAYED = select_delayed("webhook_endpoint", "webhook_delivery", "endpoint")
BRING_FORWARD = bring_forward("webhook_delivery", "endpoint")
SKIP_DOWNTIME = skip_downtime("webhook_endpoint")

FIND_ENDPOINT = """
    SELECT id, organization, url, secret, previous_secret, previous_until FROM webhook_endpoint
    WHERE id = ? AND active AND deleted_at IS NULL
"""
FIND_URL = "SELECT url FROM webhook_endpoint WHERE id = ?"
# The times of a JSON list of deliveries, by number; `RESEND` changes them.
FIND_PENDING_TIMES = """
    SELECT number, next_attempt_at FROM webhook_delivery
    WHERE number IN (SELECT value FROM json_each(?)) AND status = 'pending'
"""

# The results of attempts for one endpoint: deliveries, attempts, and the endpoint's status.
# From a JSON list of [number, status, next attempt, status code, error, attempts, tries].
RECORD_RESULTS = """
    UPDATE webhook_delivery SET status = result.value ->> 1, next_attempt_at = result.value ->> 2,
        attempts = attempts + (result.value ->> 5), tries = result.value ->> 6,
        last_status_code = result.value ->> 3, last_error = result.value ->> 4, updated_at = ?1
    FROM json_each(?2) AS result WHERE number = result.value ->> 0
"""
# From a JSON list of [id, delivery, start, duration, status code, error, response].
INSERT_ATTEMPTS = """
    INSERT INTO webhook_attempt (id, delivery, started_at, duration_ms, status_code, error, response_body)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
    FROM json_each(?)
"""
SET_RESPONSE_BODY = "UPDATE webhook_attempt SET response_body = ? WHERE id = ?"
RECORD_SUCCESS = """
    UPDATE webhook_endpoint SET last_delivery_at = ?, last_failure_reason = NULL, failing_since = NULL,
        previous_accepted = previous_accepted + ?
    WHERE id = ?
"""
# Returns whether every delivery since ?3 or longer has failed.
RECORD_FAILURE = """
    UPDATE webhook_endpoint SET last_failure_reason = ?1, failing_since = coalesce(failing_since, ?2)
    WHERE id = ?4 RETURNING failing_since <= ?3
"""
# No row if it was disabled already.
DISABLE_ENDPOINT = """
    UPDATE webhook_endpoint SET active = 0, last_failure_reason = ?1, updated_at = ?2
    WHERE id = ?3 AND active RETURNING organization, profile, description
"""

# The pending deliveries of a deleted endpoint are not sent any more.
END_DELIVERIES = """
    UPDATE webhook_delivery SET status = 'failed', next_attempt_at = NULL, last_error = ?1, updated_at = ?2
    WHERE endpoint = ?3 AND status = 'pending'
        AND EXISTS (SELECT 1 FROM webhook_endpoint WHERE id = ?3 AND deleted_at IS NOT NULL)
"""
IS_DELETED = "SELECT deleted_at IS NOT NULL FROM webhook_endpoint WHERE id = ?"

# The log, newest first: the range of one page, and the rows in it that pass the filters.
FIND_PAGE_REACH = """
    SELECT min(number), count(*) FROM (
        SELECT number FROM webhook_delivery
        WHERE organization = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3
    )
"""
PAGE = f"""
    SELECT v.number, v.created_at, d.number, d.id, d.endpoint, d.type, d.status, d.attempts,
        d.next_attempt_at, d.last_status_code, d.last_error, d.created_at, d.updated_at
    FROM webhook_delivery d JOIN event v ON v.number = d.event
    WHERE d.organization = ?1 AND d.number < ?2 AND d.number >= ?3
        AND (?4 IS NULL OR d.profile = ?4) AND (?5 IS NULL OR d.endpoint = ?5) AND d.created_at >= ?6
        AND (?7 = '[]' OR d.type IN (SELECT value FROM json_each(?7)))
        AND (?8 = '[]' OR d.status IN (SELECT value FROM json_each(?8)))
        AND (coalesce(?9, ?10) IS NULL OR d.endpoint IN ({select_of_scope("webhook_endpoint", "?9", "?10")}))
    ORDER BY d.number DESC LIMIT ?11
"""
FIND_DELIVERY = f"""
    SELECT event.number, event.created_at, d.number, d.id, d.endpoint, d.type, d.status, d.attempts,
        d.next_attempt_at, d.last_status_code, d.last_error, d.created_at, d.updated_at, {FULL_DATA}
    FROM webhook_delivery d JOIN event ON event.number = d.event LEFT JOIN post ON post.number = event.post
    WHERE d.id = ?1 AND d.organization = ?2 AND (?3 IS NULL OR d.profile = ?3)
        AND (coalesce(?4, ?5) IS NULL OR d.endpoint IN ({select_of_scope("webhook_endpoint", "?4", "?5")}))
"""
FIND_ATTEMPTS = """
    SELECT id, started_at, duration_ms, status_code, error, response_body FROM webhook_attempt
    WHERE delivery = ? ORDER BY started_at, id
"""

# Resend a delivery with all attempts. The time of a pending one always changes, which the call that may be in progress
# notices at its end.
RESEND = """
    UPDATE webhook_delivery SET status = 'pending', tries = 0,
        next_attempt_at = coalesce(min(?1, next_attempt_at - 1), ?1), updated_at = ?1
    WHERE id = ?2
"""
# The deliveries of an endpoint that were in a state at ?3, after a position (creation time, number): how many they are,
# and a batch of them. Found in an index alone, since other writes wait.
_IN_STATE = """
    endpoint = ?1 AND status = ?2 AND updated_at <= ?3 AND (created_at, number) > (?4, ?5)
"""
COUNT_IN_STATE = f"SELECT count(*) FROM webhook_delivery WHERE {_IN_STATE}"
RESEND_BATCH = f"""
    UPDATE webhook_delivery SET status = 'pending', tries = 0, next_attempt_at = ?6, updated_at = ?6
    WHERE EXISTS (SELECT 1 FROM webhook_endpoint WHERE id = ?1 AND deleted_at IS NULL) AND number IN (
        SELECT number FROM webhook_delivery WHERE {_IN_STATE} ORDER BY created_at, number LIMIT ?7
    )
    RETURNING created_at, number
"""
