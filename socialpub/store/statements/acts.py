"""The log of acts. Among acts of one instant the later one has the higher number."""

from socialpub.store.statements.ids import number_of

_ROW = "audit.number, audit.at, audit.key, audit.user, audit.verb, audit.subject, audit.address"
_HERE = "organization = ?1 AND (at, number) < (?2, ?3) AND at >= ?4"
_NEWEST = "ORDER BY at DESC, number DESC LIMIT ?5"

ALL = f"SELECT {_ROW} FROM audit WHERE {_HERE} {_NEWEST}"
OF_PERSON = f"SELECT {_ROW} FROM audit WHERE {_HERE} AND user = ?6 {_NEWEST}"
OF_PERSON_AND_VERBS = f"""
    SELECT {_ROW} FROM audit WHERE {_HERE} AND user = ?6 AND verb IN (SELECT value FROM json_each(?7)) {_NEWEST}
"""
# Of each verb the newest, and of all these the newest: many verbs do not make it read more than it shows of each.
OF_VERBS = f"""
    SELECT {_ROW} FROM json_each(?6) AS wanted CROSS JOIN audit ON audit.number IN (
        SELECT number FROM audit AS each WHERE {_HERE} AND each.verb = wanted.value {_NEWEST}
    ) ORDER BY audit.at DESC, audit.number DESC LIMIT ?5
"""

# Of a JSON list of ids those that are batches of the organization, each with its first post, and how many it has.
BATCHES = f"""
    SELECT post.batch, min(post.id), count(*) FROM json_each(?) AS asked CROSS JOIN post ON post.batch = asked.value
    WHERE +post.organization = {number_of("organization", "?")} GROUP BY post.batch
"""
