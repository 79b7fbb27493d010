"""The batches of the log, with the posts that a caller may see."""

from socialpub.store.queries.id_columns import select_column, select_number
from socialpub.store.queries.publish_runs import BATCH_POST_COLUMNS

_COLUMNS = ", ".join(f"{select_column('post', name)} AS {name}" for name in BATCH_POST_COLUMNS)
_CONTENT = ", ".join(f"post.{name}" for name in ("text", "media", "options", "scheduled_at", "updated_at"))
# ?2 organization, ?3 profile or null, ?4 a JSON list of accounts or null.
_IS_VISIBLE = f"""
    post.organization = {select_number("organization", "?2")}
        AND (?3 IS NULL OR post.profile = {select_number("profile", "?3")})
        AND (?4 IS NULL OR post.account IN (
            SELECT account.number FROM json_each(?4) AS listed CROSS JOIN account ON account.id = listed.value
        ))
"""
# Of the batches in the JSON list ?1, in its order: id, times, the visible posts, and what these do not show.
FIND_BATCHES = f"""
    SELECT batch.id, batch.created_at, batch.scheduled_at, (
        SELECT json_group_array(json_array({", ".join(BATCH_POST_COLUMNS)}))
        FROM (SELECT {_COLUMNS} FROM post WHERE post.batch = batch.id AND {_IS_VISIBLE} ORDER BY position)
    ), (
        SELECT json_group_array(json_array(text, media, options, scheduled_at, updated_at))
        FROM (SELECT {_CONTENT} FROM post WHERE post.batch = batch.id AND {_IS_VISIBLE} ORDER BY position)
    )
    FROM json_each(?1) AS wanted CROSS JOIN batch ON batch.id = wanted.value ORDER BY wanted.key
"""
FIND_VISIBLE_POSTS = f"SELECT post.id FROM post WHERE post.batch = ?1 AND {_IS_VISIBLE} ORDER BY position"
# The batches of the posts with the numbers in a JSON list, in its order, each with its first post's number.
FIND_OF_POSTS = """
    SELECT post.batch, post.created_at, (SELECT min(first.number) FROM post AS first WHERE first.batch = post.batch)
    FROM json_each(?) AS hit CROSS JOIN post ON post.number = hit.value ORDER BY hit.key
"""
# The time of a scheduled batch, once all of its queued posts are due then.
SET_TIME = """
    UPDATE batch SET scheduled_at = ?1 WHERE id = ?2 AND scheduled_at IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM post WHERE post.batch = ?2 AND post.status = 'queued' AND post.scheduled_at <> ?1
    )
"""
FIND_TARGETS = "SELECT position FROM post WHERE batch = ? AND thread_of IS NULL ORDER BY position"
