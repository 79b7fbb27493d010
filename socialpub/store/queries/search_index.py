"""The search index of the posts' texts."""

from socialpub.store.queries.id_columns import select_column

# The folded text: if `lower` gives it, `text_fold` is empty (`casefold.fold_for_storage`).
FOLDED_TEXT = "CASE post.text_fold WHEN '' THEN lower(post.text) ELSE post.text_fold END"

SET_DISORDER = "UPDATE post_search_order SET disorder = max(disorder, ?)"

# --- Indexed posts --------------------------------------------------------------------------------------------------

FIND_PROGRESS = "SELECT texts, coalesce((SELECT max(number) FROM post), 0) FROM post_search_filed"

# The indexed columns of a post; FTS5 needs the same values to delete its entry.
_INDEXED_COLUMNS = (
    f"number, {FOLDED_TEXT}, substr({select_column('post', 'organization')}, -3), "
    f"substr({select_column('post', 'profile')}, -3), substr(platform, 1, 3)"
)
# The posts after ?1 up to ?2.
INSERT_POSTS = f"""
    INSERT INTO post_search (rowid, fold, organization, profile, platform)
    SELECT {_INDEXED_COLUMNS} FROM post WHERE number > ?1 AND number <= ?2 ORDER BY number
"""
# The posts in a JSON list of numbers.
DELETE_POSTS = f"""
    INSERT INTO post_search (post_search, rowid, fold, organization, profile, platform)
    SELECT 'delete', {_INDEXED_COLUMNS} FROM post
    WHERE number IN (SELECT value FROM json_each(?)) AND number <= (SELECT texts FROM post_search_filed)
    ORDER BY number
"""
# Those that were removed to be edited.
INSERT_AGAIN = f"""
    INSERT INTO post_search (rowid, fold, organization, profile, platform)
    SELECT {_INDEXED_COLUMNS} FROM post
    WHERE number IN (SELECT value FROM json_each(?)) AND number <= (SELECT texts FROM post_search_filed)
    ORDER BY number
"""
SET_PROGRESS = "UPDATE post_search_filed SET texts = ?"
