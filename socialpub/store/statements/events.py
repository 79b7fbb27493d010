"""The log of events."""

# How far one page may look: the number of the last of so many events after a place, and how many these are.
REACH = """
    SELECT max(number), count(*) FROM (
        SELECT number FROM event WHERE organization = ? AND number > ? ORDER BY number LIMIT ?
    )
"""

# Of one profile where it is named; of the types in a JSON list, or of all where that is empty.
PAGE = """
    SELECT number, id, type, organization, data, created_at FROM event
    WHERE number > ?1 AND number <= ?2 AND organization = ?3 AND (?4 IS NULL OR profile = ?4)
        AND (?5 = '[]' OR type IN (SELECT value FROM json_each(?5)))
    ORDER BY number LIMIT ?6
"""

NUMBER = "SELECT number FROM event WHERE id = ?1 AND organization = ?2 AND (?3 IS NULL OR profile = ?3)"

NEWEST = "SELECT number FROM event WHERE organization = ? ORDER BY number DESC LIMIT 1"
