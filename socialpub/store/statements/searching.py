"""The indexes of the posts' texts."""

# A text as it is looked for, casefolded: where `lower` gives the same, `text_fold` is empty (`search.fold_of`).
FOLD = "CASE post.text_fold WHEN '' THEN lower(post.text) ELSE post.text_fold END"

GONE_BACK = "UPDATE post_search_order SET disorder = max(disorder, ?)"

# --- What is filed ---------------------------------------------------------------------------------------------------

FILED = "SELECT texts, terms, coalesce((SELECT max(number) FROM post), 0) FROM post_search_filed"

# The posts after ?1 up to ?2.
FILE_TEXTS = f"""
    INSERT INTO post_search (rowid, fold, organization, profile, platform)
    SELECT number, {FOLD}, substr(organization, -3), substr(profile, -3), substr(platform, 1, 3)
    FROM post WHERE number > ?1 AND number <= ?2 ORDER BY number
"""
TEXTS_FILED = "UPDATE post_search_filed SET texts = ?"
TERMS_FILED = "UPDATE post_search_filed SET terms = ?"

# --- Shelves of short terms ------------------------------------------------------------------------------------------

# The posts after ?1 up to ?2, by the shelves that they belong on: the organization's, and the profile's by platform.
ARRIVED = """
    SELECT organization, profile, platform, json_group_array(number) FROM (
        SELECT organization, '' AS profile, '' AS platform, number FROM post WHERE number > ?1 AND number <= ?2
        UNION ALL
        SELECT organization, profile, platform, number FROM post WHERE number > ?1 AND number <= ?2
    ) GROUP BY organization, profile, platform
"""
OPEN_SHELF = """
    INSERT INTO post_search_shelf (organization, profile, platform) VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET chunks = chunks RETURNING id, chunks, open
"""
LEAVE_SHELF = "UPDATE post_search_shelf SET chunks = ?, open = ? WHERE id = ?"
TEXTS_OF = f"""
    SELECT max(post.created_at), json_group_array({FOLD})
    FROM json_each(?) AS filed CROSS JOIN post ON post.number = filed.value
"""
ADD_CHUNK = "INSERT INTO post_search_chunk (shelf, place, first, newest, numbers) VALUES (?, ?, ?, ?, ?)"
ADD_TERMS = """
    INSERT INTO post_search_term (shelf, segment, term, bits) SELECT ?1, ?2, value, ?3 FROM json_each(?4) WHERE true
    ON CONFLICT DO UPDATE SET bits = bits | excluded.bits
"""

CLEAR_TERMS = (
    "DELETE FROM post_search_term",
    "DELETE FROM post_search_chunk",
    "DELETE FROM post_search_shelf",
    "UPDATE post_search_filed SET terms = 0",
)

SHELF_OF_ORGANIZATION = """
    SELECT id, chunks, open FROM post_search_shelf WHERE organization = ? AND profile = '' AND platform = ''
"""
# Of organization ?1: one profile's (?2) or everybody's, on these platforms (?3, JSON) or all; as many as ?4.
SHELVES = """
    SELECT id, chunks, open FROM post_search_shelf
    WHERE organization = ?1 AND profile <> '' AND (?2 IS NULL OR profile = ?2)
    AND (?3 IS NULL OR platform IN (SELECT value FROM json_each(?3))) LIMIT ?4
"""
FIRST_OF_CHUNK = "SELECT first FROM post_search_chunk WHERE shelf = ? AND place = ?"
NEWEST_OF_CHUNK = "SELECT newest FROM post_search_chunk WHERE shelf = ? AND place = ?"
# Of shelf ?1, in its segments ?3 (JSON), newest first: where term ?2 is.
SEGMENTS_WITH = """
    SELECT json_group_array(json_array(segment, bits)) FROM (
        SELECT asked.value AS segment, bits FROM json_each(?3) AS asked
        CROSS JOIN post_search_term ON shelf = ?1 AND segment = asked.value AND term = ?2
    )
"""
