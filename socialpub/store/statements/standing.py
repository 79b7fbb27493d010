"""What `socialpub status` reads: off the ends of indexes that hold only what is open or in trouble, and never further
than it counts.
"""

from socialpub.store.statements.sweeps import DUE, OPEN

MOST = 1000  # counted of anything: more is told as this many
CALLED = "coalesce(account.display_name, account.platform_account_id)"

NEXT = f"""
    SELECT post.id, post.platform, {CALLED}, {DUE.replace("created_at", "post.created_at")} FROM post
    CROSS JOIN account ON account.number = post.account
    WHERE {OPEN.replace("status", "post.status")} AND {DUE.replace("created_at", "post.created_at")} > ?1
    ORDER BY {DUE.replace("created_at", "post.created_at")} LIMIT ?2
"""
# How many posts that have not begun were due before a time, and when the first of them was.
LATE = f"""
    SELECT count(*), min(due) FROM (
        SELECT {DUE} AS due FROM post
        WHERE {OPEN} AND {DUE} < ?1 AND status IN ('queued', 'validated') ORDER BY {DUE} LIMIT {MOST}
    )
"""
# How many are on their way, of those that are due first: before a time.
PUBLISHING = f"""
    SELECT coalesce(sum(status = 'publishing'), 0) FROM (
        SELECT status FROM post WHERE {OPEN} AND {DUE} < ?1 ORDER BY {DUE} LIMIT {MOST}
    )
"""
# What failed or was refused since a time, by its cause: how many there are, and the newest of them.
FAILING = f"""
    SELECT told.platform, {CALLED}, told.code, told.rule, count(*), told.id, max(told.updated_at) FROM (
        SELECT post.id, post.platform, post.account, post.updated_at,
            coalesce(json_extract(post.error, '$.code'), '') AS code,
            coalesce(json_extract(post.error, '$.rule'), '') AS rule
        FROM organization CROSS JOIN post
        WHERE post.organization = organization.number AND post.status IN ('failed', 'rejected') AND post.updated_at > ?1
        LIMIT {MOST}
    ) AS told CROSS JOIN account ON account.number = told.account
    GROUP BY told.account, told.code, told.rule ORDER BY count(*) DESC LIMIT ?2
"""
UNKNOWN = f"""
    SELECT count(*) FROM (
        SELECT 1 FROM account
        CROSS JOIN intent ON intent.account = account.number AND intent.outcome = 'unknown'
        CROSS JOIN post ON post.number = intent.post
        WHERE intent.settled_by IS NULL AND intent.step = 'publish' AND post.status = 'failed' LIMIT {MOST}
    )
"""
TROUBLED_ACCOUNTS = f"""
    SELECT id, platform, {CALLED}, status, attention, ends_at FROM account
    WHERE disconnected_at IS NULL AND (status <> 'active' OR attention IS NOT NULL) ORDER BY created_at LIMIT ?1
"""
SEEN = "SELECT seen_at FROM instance WHERE id = 1"
