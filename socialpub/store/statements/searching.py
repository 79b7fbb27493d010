"""The indexes of the posts' texts."""

from socialpub.store.statements.ids import id_of, told

# A text as it is searched: where `lower` gives its fold, `text_fold` is empty (`folding.fold_of`).
FOLD = "CASE post.text_fold WHEN '' THEN lower(post.text) ELSE post.text_fold END"

GONE_BACK = "UPDATE post_search_order SET disorder = max(disorder, ?)"

# --- What is filed ---------------------------------------------------------------------------------------------------

FILED = "SELECT texts, terms, coalesce((SELECT max(number) FROM post), 0) FROM post_search_filed"

# What of a post is filed; the index has to be told it again when the post goes.
_FILING = (
    f"number, {FOLD}, substr({told('post', 'organization')}, -3), substr({told('post', 'profile')}, -3), "
    "substr(platform, 1, 3)"
)
# The posts after ?1 up to ?2.
FILE_TEXTS = f"""
    INSERT INTO post_search (rowid, fold, organization, profile, platform)
    SELECT {_FILING} FROM post WHERE number > ?1 AND number <= ?2 ORDER BY number
"""
# Of those in a JSON list.
UNFILE_TEXTS = f"""
    INSERT INTO post_search (post_search, rowid, fold, organization, profile, platform)
    SELECT 'delete', {_FILING} FROM post
    WHERE number IN (SELECT value FROM json_each(?)) AND number <= (SELECT texts FROM post_search_filed)
    ORDER BY number
"""
TEXTS_FILED = "UPDATE post_search_filed SET texts = ?"
TERMS_FILED = "UPDATE post_search_filed SET terms = ?"

# --- Shelves of short terms ------------------------------------------------------------------------------------------

# The posts after ?1 up to ?2, by the shelves that they belong on: the organization's, and the profile's by platform.
ARRIVED = f"""
    SELECT {id_of("organization", "whose")}, coalesce({id_of("profile", "narrower")}, ''), platform,
        json_group_array(number)
    FROM (
        SELECT organization AS whose, 0 AS narrower, '' AS platform, number FROM post WHERE number > ?1 AND number <= ?2
        UNION ALL
        SELECT organization, profile, platform, number FROM post WHERE number > ?1 AND number <= ?2
    ) GROUP BY whose, narrower, platform
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

# The chunks after place ?2 of shelf ?1, and whether all of their posts are gone.
PART_OF_CHUNKS = """
    SELECT shelf, place, NOT EXISTS (
        SELECT 1 FROM json_each(chunk.numbers) AS candidate
        CROSS JOIN post ON post.number = chunk.first + candidate.value
    ) FROM post_search_chunk AS chunk WHERE (shelf, place) > (?1, ?2) ORDER BY shelf, place LIMIT ?3
"""
FORGET_CHUNK = "DELETE FROM post_search_chunk WHERE shelf = ? AND place = ?"
# Of segment ?2 of shelf ?1, which has the places from ?3 up to ?4: once it is full, and all of its chunks are gone.
FORGET_TERMS = """
    DELETE FROM post_search_term WHERE shelf = ?1 AND segment = ?2
    AND (SELECT chunks FROM post_search_shelf WHERE id = ?1) >= ?4
    AND NOT EXISTS (SELECT 1 FROM post_search_chunk WHERE shelf = ?1 AND place >= ?3 AND place < ?4)
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
# Or of the next one that there still is.
FIRST_OF_CHUNK = "SELECT first FROM post_search_chunk WHERE shelf = ? AND place >= ? ORDER BY place LIMIT 1"
NEWEST_OF_CHUNK = "SELECT newest FROM post_search_chunk WHERE shelf = ? AND place = ?"
# Of shelf ?1, in its segments ?3 (JSON), newest first: where term ?2 is.
SEGMENTS_WITH = """
    SELECT json_group_array(json_array(segment, bits)) FROM (
        SELECT asked.value AS segment, bits FROM json_each(?3) AS asked
        CROSS JOIN post_search_term ON shelf = ?1 AND segment = asked.value AND term = ?2
    )
"""
