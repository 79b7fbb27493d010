"""Queries of `socialpub status`.

They read from indexes that contain only open or failed rows, up to COUNT_MAX.
"""

from socialpub.store.queries.maintenance import DUE_AT, IS_OPEN, IS_WAITING_PIECE

COUNT_MAX = 1000  # larger counts are reported as this number
ACCOUNT_NAME = "coalesce(account.display_name, account.platform_account_id)"

_POST_DUE_AT = DUE_AT.replace("created_at", "post.created_at")  # `account` has this column too
FIND_NEXT_DUE = f"""
    SELECT post.id, post.platform, {ACCOUNT_NAME}, {_POST_DUE_AT} FROM post
    CROSS JOIN account ON account.number = post.account
    WHERE {IS_OPEN.replace("status", "post.status")} AND {_POST_DUE_AT} > ?1
    ORDER BY {_POST_DUE_AT} LIMIT ?2
"""
# The number of posts that have not started and were due before a time, and the first due time.
COUNT_OVERDUE = f"""
    SELECT count(*), min(due) FROM (
        SELECT {DUE_AT} AS due FROM post
        WHERE {IS_OPEN} AND {DUE_AT} < ?1 AND status IN ('queued', 'validated') AND NOT {IS_WAITING_PIECE}
        ORDER BY {DUE_AT} LIMIT {COUNT_MAX}
    )
"""
# The number of posts being published, of those due before a time.
COUNT_PUBLISHING = f"""
    SELECT coalesce(sum(status = 'publishing'), 0) FROM (
        SELECT status FROM post WHERE {IS_OPEN} AND {DUE_AT} < ?1 ORDER BY {DUE_AT} LIMIT {COUNT_MAX}
    )
"""
# Failed and rejected posts since a time, by cause: their number and the newest one.
FIND_FAILURES = f"""
    SELECT failed.platform, {ACCOUNT_NAME}, failed.code, failed.rule, count(*), failed.id, max(failed.updated_at) FROM (
        SELECT post.id, post.platform, post.account, post.updated_at,
            coalesce(json_extract(post.error, '$.code'), '') AS code,
            coalesce(json_extract(post.error, '$.rule'), '') AS rule
        FROM organization CROSS JOIN post
        WHERE post.organization = organization.number AND post.status IN ('failed', 'rejected') AND post.updated_at > ?1
        LIMIT {COUNT_MAX}
    ) AS failed CROSS JOIN account ON account.number = failed.account
    GROUP BY failed.account, failed.code, failed.rule ORDER BY count(*) DESC LIMIT ?2
"""
COUNT_UNKNOWN_OUTCOMES = f"""
    SELECT count(*) FROM (
        SELECT 1 FROM account
        CROSS JOIN intent ON intent.account = account.number AND intent.outcome = 'unknown'
        CROSS JOIN post ON post.number = intent.post
        WHERE intent.settled_by IS NULL AND intent.step = 'publish' AND post.status = 'failed' LIMIT {COUNT_MAX}
    )
"""
FIND_PROBLEM_ACCOUNTS = f"""
    SELECT id, platform, {ACCOUNT_NAME}, status, attention, ends_at FROM account
    WHERE disconnected_at IS NULL AND (status <> 'active' OR attention IS NOT NULL) ORDER BY created_at LIMIT ?1
"""
FIND_LAST_SEEN = "SELECT seen_at FROM instance WHERE id = 1"
