"""The index of the posts' texts."""

from socialpub.store.statements.ids import told

# A text as it is searched: where `lower` gives its fold, `text_fold` is empty (`folding.fold_of`).
FOLD = "CASE post.text_fold WHEN '' THEN lower(post.text) ELSE post.text_fold END"

GONE_BACK = "UPDATE post_search_order SET disorder = max(disorder, ?)"

# --- What is filed ---------------------------------------------------------------------------------------------------

FILED = "SELECT texts, coalesce((SELECT max(number) FROM post), 0) FROM post_search_filed"

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
