"""The calendar: scheduled and created posts of each day."""

from socialpub.store.queries.id_columns import select_number

_SHOWN_STATUSES = "('queued', 'validated', 'publishing', 'published', 'failed', 'rejected')"


def _select_days(owner: str) -> str:
    within = ">= day.value ->> 0 AND {0} < day.value ->> 1"
    scheduled = f"""
        FROM post WHERE account IN (SELECT number FROM account WHERE id IN (SELECT value FROM json_each(?2)))
            AND status IN {_SHOWN_STATUSES}
            AND scheduled_at {within.format("scheduled_at")}
    """
    return f"""
    SELECT json_group_array(json_array(
        (SELECT count(*) {scheduled}),
        json((SELECT json_group_array(json_array(scheduled_at, number)) FROM (
            SELECT scheduled_at, number {scheduled} ORDER BY scheduled_at, number LIMIT ?4
        ))),
        json((SELECT json_group_array(json_array(created_at, iif(scheduled_at IS NULL, number, NULL))) FROM (
            SELECT created_at, number, scheduled_at FROM post
            WHERE {owner} = {select_number(owner, "?3")} AND created_at {within.format("created_at")}
            ORDER BY created_at, number LIMIT ?5
        )))
    )) FROM json_each(?1) AS day
"""


# ?1 days [from, to), ?2 accounts, ?3 owner, ?4 and ?5 the most scheduled and created posts to read per day. For each
# day: the number of scheduled posts, the first of them, and the created ones (a number if unscheduled).
DAYS_OF_ORGANIZATION, DAYS_OF_PROFILE = _select_days("organization"), _select_days("profile")
