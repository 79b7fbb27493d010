"""Slots of profiles."""

# ?1 profile, ?2 and ?3 the first and the last time. By account, as the index of scheduled posts is.
FIND_QUEUED_TIMES = """
    SELECT DISTINCT scheduled_at FROM post
    WHERE account IN (SELECT number FROM account WHERE profile = ?1)
        AND status = 'queued' AND scheduled_at >= ?2 AND scheduled_at <= ?3
"""
