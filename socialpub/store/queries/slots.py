"""Slots of profiles."""

# The places of those instants for which a post of their profile is queued: a JSON list of [profile, instant].
FIND_TAKEN = """
    SELECT slot.key FROM json_each(?) AS slot WHERE EXISTS (
        SELECT 1 FROM account CROSS JOIN post
            ON post.account = account.number AND post.status = 'queued' AND post.scheduled_at = slot.value ->> 1
        WHERE account.profile = slot.value ->> 0
    )
"""

# ?1 profile, ?2 and ?3 the first and the last time. By account, as the index of scheduled posts is.
FIND_QUEUED_TIMES = """
    SELECT DISTINCT scheduled_at FROM post
    WHERE account IN (SELECT number FROM account WHERE profile = ?1)
        AND status = 'queued' AND scheduled_at >= ?2 AND scheduled_at <= ?3
"""
