"""What the overview asks for: each down an index of what is in trouble, open or lately told, and no further than a page
can show.
"""

from socialpub.store.statements.events import TYPES
from socialpub.store.statements.ids import number_of, told
from socialpub.store.statements.sweeps import DUE, OPEN

_ORGANIZATION = number_of("organization", "?1")
POST = (
    f"post.id, {told('post', 'account')}, post.platform, post.status, substr(post.text, 1, 200), post.error, "
    "post.updated_at"
)


def _troubled(owner: str) -> str:
    return f"""
    SELECT {POST} FROM post
    WHERE {owner} = {number_of(owner, "?1")} AND status IN ('failed', 'rejected') AND updated_at > ?2
    ORDER BY updated_at DESC LIMIT ?3
"""


# What failed or was refused since a time, newest first.
TROUBLED_OF_ORGANIZATION, TROUBLED_OF_PROFILE = _troubled("organization"), _troubled("profile")

# Posts of which nobody knows whether they are live, oldest first.
UNKNOWN = f"""
    SELECT {POST} FROM account
    CROSS JOIN intent ON intent.account = account.number AND intent.outcome = 'unknown'
    CROSS JOIN post ON post.number = intent.post
    WHERE account.organization = ?1 AND (?2 IS NULL OR account.profile = ?2) AND intent.settled_by IS NULL
        AND intent.step = 'publish' AND post.status = 'failed'
    ORDER BY post.updated_at LIMIT ?3
"""

# How many open posts were due before a time, and when the first of them was.
LATE = f"""
    SELECT count(*), min({DUE}) FROM post
    WHERE {OPEN} AND {DUE} < ?3 AND +organization = {_ORGANIZATION}
        AND (?2 IS NULL OR +profile = {number_of("profile", "?2")})
"""

# How many posts wait for an account, counted up to a bound.
WAITING = f"""
    SELECT count(*) FROM (
        SELECT 1 FROM post WHERE account = {number_of("account", "?1")} AND {OPEN}
            AND status IN ('queued', 'validated') AND +organization = {number_of("organization", "?2")} LIMIT ?3
    )
"""
QUEUED = f"""
    SELECT id FROM post
    WHERE account = {number_of("account", "?1")} AND {OPEN} AND status = 'queued' AND scheduled_at > ?2 LIMIT ?3
"""

# The numbers of the posts that were published last, among the newest events.
WENT_OUT = f"""
    SELECT post.number FROM (
        SELECT number, post, type FROM event WHERE organization = {_ORGANIZATION} ORDER BY number DESC LIMIT ?3
    ) AS told CROSS JOIN post ON post.number = told.post
    WHERE told.type = {TYPES["post.published"]} AND (?2 IS NULL OR post.profile = {number_of("profile", "?2")})
    ORDER BY told.number DESC LIMIT ?4
"""

# What a first run has done: an account connected, a key made, a post published.
STEPS = f"""
    SELECT
        EXISTS (SELECT 1 FROM account WHERE organization = ?1 AND disconnected_at IS NULL),
        EXISTS (SELECT 1 FROM api_key WHERE organization = ?1 AND revoked_at IS NULL),
        EXISTS (SELECT 1 FROM post WHERE organization = {_ORGANIZATION} AND status = 'published')
"""
