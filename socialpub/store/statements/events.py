"""The log of events."""

from socialpub.store.statements.ids import told

# The data of `event`, whole: of a post's, what its row tells is not kept with the event (`events.kept_of`).
DATA = """
    CASE WHEN substr(event.data, 1, 1) = '{' THEN event.data ELSE
        '{"id":"' || post.id || '","batchId":"' || post.batch || '","platform":"' || post.platform
        || (SELECT '","accountId":"' || id || '","profileId":"' || profile || '",'
            FROM account WHERE number = post.account)
        || replace(replace(event.data,
            char(1), '"uri":' || json_quote(post.platform_uri)
                || ',"cid":' || json_quote(post.platform_cid) || ',"url":' || json_quote(post.url)),
            char(2), strftime('"%Y-%m-%dT%H:%M:%fZ"', event.created_at / 1000.0, 'unixepoch'))
    END
"""

# How far one page may look: the number of the last of so many events after a place, and how many these are.
REACH = """
    SELECT max(number), count(*) FROM (
        SELECT number FROM event WHERE organization = ? AND number > ? ORDER BY number LIMIT ?
    )
"""

# Of one profile where it is named; of the types in a JSON list, or of all where that is empty.
PAGE = f"""
    SELECT event.number, event.id, event.type, event.organization, {DATA}, event.created_at
    FROM event LEFT JOIN post ON post.id = event.post
    WHERE event.number > ?1 AND event.number <= ?2 AND event.organization = ?3
        AND (?4 IS NULL OR coalesce(event.profile, {told("post", "profile")}) = ?4)
        AND (?5 = '[]' OR event.type IN (SELECT value FROM json_each(?5)))
    ORDER BY event.number LIMIT ?6
"""

NUMBER = f"""
    SELECT event.number FROM event LEFT JOIN post ON post.id = event.post
    WHERE event.id = ?1 AND event.organization = ?2
        AND (?3 IS NULL OR coalesce(event.profile, {told("post", "profile")}) = ?3)
"""

NEWEST = "SELECT number FROM event WHERE organization = ? ORDER BY number DESC LIMIT 1"
