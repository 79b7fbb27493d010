"""Deletion of old posts and the rows that only they needed.

They are found from the oldest end of each table, and deleted by their keys.
"""

from socialpub.store.queries.id_columns import select_number
from socialpub.store.queries.maintenance import IS_OPEN, select_range

# --- Posts ----------------------------------------------------------------------------------------------------------

# The posts (numbers) of the first ?2 events, and the time of the newest of these events.
FIND_OLD_EVENTS = """
    SELECT json_group_array(DISTINCT post) FILTER (WHERE post IS NOT NULL AND at < ?1), max(at), count(*) FROM (
        SELECT post, created_at AS at FROM event WHERE number > 0 ORDER BY number LIMIT ?2
    )
"""
FIND_POST_RANGE = select_range("post", "created_at")
# A batch stays if one of its posts is newer than ?1, open, has an unknown outcome, has an event (?2, JSON), or is the
# newest of all, whose number the next post would reuse.
_IS_RETAINED = f"""
    EXISTS (
        SELECT 1 FROM post AS other WHERE other.batch = post.batch AND (
            other.updated_at >= ?1 OR other.{IS_OPEN} OR other.number IN (SELECT value FROM json_each(?2))
            OR other.number = (SELECT max(number) FROM post)
            OR EXISTS (
                SELECT 1 FROM intent WHERE intent.post = other.number
                AND (intent.outcome IS NULL OR intent.outcome = 'unknown' AND intent.settled_by IS NULL)
            )
        )
    ) OR EXISTS (
        SELECT 1 FROM idempotency WHERE idempotency.batch = post.batch AND idempotency.status IS NULL
    )
"""
# Among the posts after ?3 up to ?4.
FIND_EXPIRED_BATCHES = f"""
    SELECT batch, count(*) FROM post WHERE number > ?3 AND number <= ?4 AND NOT ({_IS_RETAINED})
    GROUP BY batch ORDER BY min(number)
"""
# Of the batches in ?3 (JSON), which may have changed since.
FIND_EXPIRED_POSTS = f"""
    SELECT json_group_array(post.number), json_group_array(DISTINCT post.batch)
    FROM json_each(?3) AS asked CROSS JOIN post ON post.batch = asked.value WHERE NOT ({_IS_RETAINED})
"""
_LISTED = "(SELECT value FROM json_each(?))"
DELETE_ATTEMPTS = f"DELETE FROM attempt WHERE post IN {_LISTED}"
DELETE_INTENTS = f"DELETE FROM intent WHERE post IN {_LISTED}"
DELETE_POSTS = f"DELETE FROM post WHERE number IN {_LISTED}"
# Those of canceled batches are free again; the others stay taken. First parameter: posts; second: batches.
DELETE_EXTERNAL_IDS = f"""
    DELETE FROM external_id
    WHERE (organization, id) IN (
        SELECT organization, external_id FROM post WHERE number IN {_LISTED} AND external_id IS NOT NULL
    ) AND batch IN {_LISTED}
    AND NOT EXISTS (SELECT 1 FROM post WHERE post.batch = external_id.batch AND post.status <> 'canceled')
"""
DELETE_BATCHES = f"DELETE FROM batch WHERE id IN {_LISTED}"

# --- Media ----------------------------------------------------------------------------------------------------------

# Media deleted before ?3, after a position: only older posts can refer to them, and few of these are left.
FIND_DELETED_MEDIA = """
    SELECT deleted_at, rowid FROM media
    WHERE deleted_at IS NOT NULL AND (deleted_at, rowid) > (?1, ?2) AND deleted_at < ?3
    ORDER BY deleted_at, rowid LIMIT ?4
"""
DELETE_MEDIA_ROWS = f"""
    DELETE FROM media WHERE rowid IN (SELECT value FROM json_each(?)) AND deleted_at IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM post
        WHERE post.organization = {select_number("organization", "media.organization")}
        AND post.created_at <= media.deleted_at
        AND (instr(post.media, media.id) > 0 OR instr(post.options, media.id) > 0)
    )
"""
