"""What `socialpub export` and `import` ask for beside the post log: by the posts' ids, and by what is the same post."""

from socialpub.store.queries.id_columns import select_number

# Of the posts with these ids (a JSON list): what the log does not show of them.
FIND_OPTIONS = f"""
    SELECT post.id, post.options FROM json_each(?1) AS wanted
    CROSS JOIN post ON post.id = wanted.value WHERE post.organization = {select_number("organization", "?2")}
"""
# Posts to an account that are scheduled for a time with a text, and have not been canceled: their media.
FIND_SAME_POSTS = f"""
    SELECT media FROM post
    WHERE account = {select_number("account", "?1")} AND scheduled_at = ?2 AND text = ?3
        AND organization = {select_number("organization", "?4")}
        AND status IN ('queued', 'validated', 'publishing', 'published', 'failed', 'rejected') LIMIT 100
"""
