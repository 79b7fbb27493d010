"""Queries of `socialpub export` and `import` that the post log does not have."""

from socialpub.store.queries.id_columns import select_number

# The fields of posts (ids as a JSON list) that the post log does not show.
FIND_OPTIONS = f"""
    SELECT post.id, post.options FROM json_each(?1) AS wanted
    CROSS JOIN post ON post.id = wanted.value WHERE post.organization = {select_number("organization", "?2")}
"""
# The media of posts of an account with this time and text that are not canceled.
FIND_SAME_POSTS = f"""
    SELECT media FROM post
    WHERE account = {select_number("account", "?1")} AND scheduled_at = ?2 AND text = ?3
        AND organization = {select_number("organization", "?4")}
        AND status IN ('queued', 'validated', 'publishing', 'published', 'failed', 'rejected') LIMIT 100
"""
# The batches of queued posts whose external ids are in a range.
FIND_IMPORTED_BATCHES = f"""
    SELECT DISTINCT batch FROM post
    WHERE organization = {select_number("organization", "?1")} AND external_id >= ?2 AND external_id < ?3
        AND status = 'queued' LIMIT ?4
"""
