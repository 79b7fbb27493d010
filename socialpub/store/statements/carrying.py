"""What `socialpub export` and `import` ask for beside the post log: by the posts' ids, and by what is the same post."""

from socialpub.store.statements.ids import number_of

# Of the posts with these ids (a JSON list): what the log does not show of them.
OPTIONS = f"""
    SELECT post.id, post.options FROM json_each(?1) AS wanted
    CROSS JOIN post ON post.id = wanted.value WHERE post.organization = {number_of("organization", "?2")}
"""
# Posts to an account that are scheduled for a time with a text, and have not been canceled: their media.
SAME = f"""
    SELECT media FROM post
    WHERE account = {number_of("account", "?1")} AND scheduled_at = ?2 AND text = ?3
        AND organization = {number_of("organization", "?4")}
        AND status IN ('queued', 'validated', 'publishing', 'published', 'failed', 'rejected') LIMIT 100
"""
