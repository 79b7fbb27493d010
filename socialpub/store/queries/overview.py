"""Queries of the overview page.

Each reads an index of open, failed or recent rows, and at most one page of it.
"""

from socialpub.store.queries.events import TYPE_NUMBERS
from socialpub.store.queries.id_columns import select_column, select_number
from socialpub.store.queries.maintenance import DUE_AT, IS_OPEN, IS_WAITING_PIECE

_ORGANIZATION_NUMBER = select_number("organization", "?1")
POST_COLUMNS = (
    f"post.id, {select_column('post', 'account')}, post.platform, post.status, substr(post.text, 1, 200), post.error, "
    "post.updated_at"
)


def _select_failed(owner: str) -> str:
    return f"""
    SELECT {POST_COLUMNS} FROM post
    WHERE {owner} = {select_number(owner, "?1")} AND status IN ('failed', 'rejected') AND updated_at > ?2
    ORDER BY updated_at DESC LIMIT ?3
"""


# Posts that failed or were rejected since a time, newest first.
FIND_FAILED_OF_ORGANIZATION, FIND_FAILED_OF_PROFILE = _select_failed("organization"), _select_failed("profile")

# Posts with an unknown outcome, oldest first.
FIND_UNKNOWN_OUTCOMES = f"""
    SELECT {POST_COLUMNS} FROM account
    CROSS JOIN intent ON intent.account = account.number AND intent.outcome = 'unknown'
    CROSS JOIN post ON post.number = intent.post
    WHERE account.organization = ?1 AND (?2 IS NULL OR account.profile = ?2) AND intent.settled_by IS NULL
        AND intent.step = 'publish' AND post.status = 'failed'
    ORDER BY post.updated_at LIMIT ?3
"""

# The number of open posts that were due before a time, and the first due time.
COUNT_OVERDUE = f"""
    SELECT count(*), min({DUE_AT}) FROM post
    WHERE {IS_OPEN} AND {DUE_AT} < ?3 AND NOT {IS_WAITING_PIECE} AND +organization = {_ORGANIZATION_NUMBER}
        AND (?2 IS NULL OR +profile = {select_number("profile", "?2")})
"""

# The number of posts that wait for an account, up to a limit.
COUNT_WAITING = f"""
    SELECT count(*) FROM (
        SELECT 1 FROM post WHERE account = {select_number("account", "?1")} AND {IS_OPEN}
            AND status IN ('queued', 'validated') AND +organization = {select_number("organization", "?2")} LIMIT ?3
    )
"""
FIND_QUEUED = f"""
    SELECT id FROM post
    WHERE account = {select_number("account", "?1")} AND {IS_OPEN} AND status = 'queued' AND scheduled_at > ?2 LIMIT ?3
"""

# The numbers of the last published posts, from the newest events.
FIND_LAST_PUBLISHED = f"""
    SELECT post.number FROM (
        SELECT number, post, type FROM event WHERE organization = {_ORGANIZATION_NUMBER} ORDER BY number DESC LIMIT ?3
    ) AS newest CROSS JOIN post ON post.number = newest.post
    WHERE newest.type = {TYPE_NUMBERS["post.published"]}
        AND (?2 IS NULL OR post.profile = {select_number("profile", "?2")})
    ORDER BY newest.number DESC LIMIT ?4
"""

# The steps of a first run: account connected, key created, post published.
FIND_ONBOARDING_STEPS = f"""
    SELECT
        EXISTS (SELECT 1 FROM account WHERE organization = ?1 AND disconnected_at IS NULL),
        EXISTS (SELECT 1 FROM api_key WHERE organization = ?1 AND revoked_at IS NULL),
        EXISTS (SELECT 1 FROM post WHERE organization = {_ORGANIZATION_NUMBER} AND status = 'published')
"""
