"""The event log."""

from socialpub.store.queries.bulk import BulkInsert
from socialpub.store.queries.id_columns import select_column, select_number

TYPE_NUMBERS = {
    "post.queued": 1,
    "post.validated": 2,
    "post.published": 3,
    "post.rejected": 4,
    "post.failed": 5,
    "post.canceled": 6,
    "post.rescheduled": 7,
    "token.expiring": 8,
    "token.revoked": 9,
    "version.deprecated": 10,
    "subscription.activated": 11,
    "subscription.cancelled": 12,
    "subscription.tier_changed": 13,
    "quota.warning": 14,
    "quota.exceeded": 15,
    "billing.payment_failed": 16,
    "billing.delinquent": 17,
    "billing.recovered": 18,
    "webhook.disabled": 19,
    "key.expiring": 20,
    "post.edited": 21,
    "draft.proposed": 22,
    "draft.approved": 23,
    "draft.returned": 24,
}
"""The number of each type in the rows; a new type gets the next one."""
TYPE_NAMES = {number: type_ for type_, number in TYPE_NUMBERS.items()}


def _format_time(column: str) -> str:
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', {column} / 1000.0, 'unixepoch')"


_AT = _format_time("event.created_at")

DEFAULT_DATA = {
    "post.queued": f"'queuedAt', {_AT}",
    "post.validated": f"'validatedAt', {_AT}",
    "post.published": f"""'publishedAt', {_format_time("post.published_at")},
                'uri', post.platform_uri, 'cid', post.platform_cid, 'url', post.url""",
    "post.rejected": f"'rejectedAt', {_AT}, 'error', json(post.error)",
    "post.failed": f"""'failedAt', {_AT}, 'error', json(post.error),
                'willRetry', json('false'), 'nextAttemptAt', NULL""",
    "post.canceled": f"'canceledAt', {_AT}",
}
"""Fields after `scheduledAt` that the post's row implies, by type: an event with only these stores no data."""

_COMMON = f"""'id', post.id, 'batchId', post.batch, 'platform', post.platform,
                'accountId', {select_column("post", "account")}, 'profileId', {select_column("post", "profile")},
                'scheduledAt', {_format_time("event.scheduled_at")}"""
_USUAL = "".join(
    f"""
            WHEN {TYPE_NUMBERS[type_]} THEN json_object(
                {_COMMON},
                {fields}
            )"""
    for type_, fields in DEFAULT_DATA.items()
)

# The data of `event` as JSON: stored, or built from its post's row. `|| ''` makes it a text inside JSON functions.
FULL_DATA = f"""
    coalesce(
        event.data,
        CASE event.type {_USUAL}
        END || ''
    )
"""


# Own values: type, number of the post, scheduled_at, data, number of the organization. Shared: the time. The request is
# that of the batch.
INSERT_POST_EVENTS = BulkInsert(
    "INSERT INTO event (type, post, scheduled_at, data, organization, created_at)",
    own=5,
    shared=1,
)
# ?1 organization, ?2 profile, ?3 type, ?4 post, ?5 scheduled_at, ?6 data, ?7 request, ?8 now.
INSERT = f"""
    INSERT INTO event (organization, profile, type, post, scheduled_at, data, request_id, created_at)
    VALUES ({select_number("organization", "?1")}, ?2, ?3, {select_number("post", "?4")}, ?5, ?6, nullif(?7, (
        SELECT batch.request_id FROM post CROSS JOIN batch ON batch.id = post.batch WHERE post.id = ?4
    )), ?8)
"""

# The range of one page: the number of the last of ? events after a position, and their count.
FIND_PAGE_REACH = f"""
    SELECT max(number), count(*) FROM (
        SELECT number FROM event
        WHERE organization = {select_number("organization", "?1")} AND number > ?2 ORDER BY number LIMIT ?3
    )
"""


def _select_of_accounts(accounts: str) -> str:
    """Return the condition that a JSON list has every account of an event, if any."""
    account = f"coalesce({select_column('post', 'account')}, event.data ->> 'accountId')"
    listed = f"(SELECT value FROM json_each({accounts}))"
    of_draft = f"SELECT 1 FROM json_each(event.data, '$.accountIds') AS named WHERE named.value NOT IN {listed}"
    return f"({accounts} IS NULL OR ({account} IS NULL OR {account} IN {listed}) AND NOT EXISTS ({of_draft}))"


# Optionally of one profile, of the types (numbers) in a JSON list ([] means all), and of accounts.
PAGE = f"""
    SELECT event.number, event.type, {FULL_DATA}, event.created_at
    FROM event LEFT JOIN post ON post.number = event.post
    WHERE event.number > ?1 AND event.number <= ?2 AND event.organization = {select_number("organization", "?3")}
        AND (?4 IS NULL OR coalesce(event.profile, {select_column("post", "profile")}) = ?4)
        AND (?5 = '[]' OR event.type IN (SELECT value FROM json_each(?5)))
        AND {_select_of_accounts("?6")}
    ORDER BY event.number LIMIT ?7
"""

# ?1 organization, ?2 profile or null, ?3 number and ?4 time of the event, ?5 accounts or null.
FIND_NUMBER = f"""
    SELECT event.number FROM event LEFT JOIN post ON post.number = event.post
    WHERE event.organization = {select_number("organization", "?1")}
        AND (?2 IS NULL OR coalesce(event.profile, {select_column("post", "profile")}) = ?2)
        AND event.number = ?3 AND event.created_at = ?4 AND {_select_of_accounts("?5")}
"""

FIND_NEWEST = (
    f"SELECT number FROM event WHERE organization = {select_number('organization', '?')} ORDER BY number DESC LIMIT 1"
)

HAS_POST_ERROR = f"data IS NULL AND type IN ({TYPE_NUMBERS['post.rejected']}, {TYPE_NUMBERS['post.failed']})"
# Store the error of post ?1 in the events that take it from the post's row, before the row gets another one.
SET_ERROR_DATA = f"""
    UPDATE event SET scheduled_at = NULL, data = (SELECT {FULL_DATA} FROM post WHERE post.number = event.post)
    WHERE post = {select_number("post", "?1")} AND {HAS_POST_ERROR}
"""
