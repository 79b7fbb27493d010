"""The audit log. Among entries of one instant the later one has the higher number."""

from socialpub.store.queries.id_columns import select_number

_COLUMNS = "audit.number, audit.at, audit.key, audit.user, audit.verb, audit.subject, audit.address"
_IN_RANGE = "organization = ?1 AND (at, number) < (?2, ?3) AND at >= ?4"
_NEWEST = "ORDER BY at DESC, number DESC LIMIT ?5"

PAGE = f"SELECT {_COLUMNS} FROM audit WHERE {_IN_RANGE} {_NEWEST}"
PAGE_OF_USER = f"SELECT {_COLUMNS} FROM audit WHERE {_IN_RANGE} AND user = ?6 {_NEWEST}"
PAGE_OF_USER_AND_VERBS = f"""
    SELECT {_COLUMNS} FROM audit WHERE {_IN_RANGE} AND user = ?6 AND verb IN (SELECT value FROM json_each(?7)) {_NEWEST}
"""
# The newest of each verb, and of these the newest: reads at most one page per verb.
PAGE_OF_VERBS = f"""
    SELECT {_COLUMNS} FROM json_each(?6) AS wanted CROSS JOIN audit ON audit.number IN (
        SELECT number FROM audit AS each WHERE {_IN_RANGE} AND each.verb = wanted.value {_NEWEST}
    ) ORDER BY audit.at DESC, audit.number DESC LIMIT ?5
"""

# The ids in a JSON list that are batches of the organization, each with its first post and the number of posts.
FIND_BATCHES = f"""
    SELECT post.batch, min(post.id), count(*) FROM json_each(?) AS asked CROSS JOIN post ON post.batch = asked.value
    WHERE +post.organization = {select_number("organization", "?")} GROUP BY post.batch
"""
