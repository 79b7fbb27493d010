"""Queries of the cards of publications: targets, senders and pictures of batches.

Each reads an index for each batch or file of a page.
"""

from socialpub.store.queries.id_columns import select_number

# The targets of batches, in the order of the batches: (batches, organization, profile, at most).
FIND_TARGETS = f"""
    SELECT post.batch, post.id, post.platform, post.status, post.error_code, post.error ->> 'rule',
        post.scheduled_at, post.next_attempt_at, post.url, coalesce(post.thread_of, post.id), post.thread_position,
        account.display_name, account.platform_account_id
    FROM json_each(?1) AS wanted CROSS JOIN post ON post.batch = wanted.value
        CROSS JOIN account ON account.number = post.account
    WHERE +post.organization = {select_number("organization", "?2")}
        AND (?3 IS NULL OR post.profile = {select_number("profile", "?3")})
    ORDER BY wanted.key, post.position LIMIT ?4
"""

# Who sent batches, whose audit rows are of the same transaction: (organization, batches).
FIND_AUTHORS = """
    SELECT audit.subject, audit.key IS NOT NULL, coalesce(api_key.name, user.email, former_user.email)
    FROM json_each(?2) AS wanted
        CROSS JOIN batch ON batch.id = wanted.value
        CROSS JOIN audit ON audit.organization = ?1 AND audit.subject = batch.id
            AND audit.at BETWEEN batch.created_at AND batch.created_at + 1000
        LEFT JOIN api_key ON api_key.id = audit.key
        LEFT JOIN user ON user.id = audit.user
        LEFT JOIN former_user ON former_user.id = audit.user
    ORDER BY audit.number
"""


def _match_status(owner: str, id: str) -> str:
    return f"{owner} = {select_number(owner, id)} AND status = wanted.value LIMIT ?4"


# How many posts have each status, up to a limit: (organization, profile or null, statuses, at most).
COUNT_BY_STATUS = f"""
    SELECT wanted.value, iif(?2 IS NULL,
        (SELECT count(*) FROM (SELECT 1 FROM post WHERE {_match_status("organization", "?1")})),
        (SELECT count(*) FROM (SELECT 1 FROM post WHERE {_match_status("profile", "?2")}))
    ) FROM json_each(?3) AS wanted
"""

# Images that are still stored: (organization, ids).
FIND_PICTURES = """
    SELECT media.id FROM json_each(?2) AS wanted CROSS JOIN media ON media.id = wanted.value
    WHERE media.organization = ?1 AND media.kind = 'image' AND media.deleted_at IS NULL
"""
