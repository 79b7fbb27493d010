"""Post log: posts as the API shows them, one by one and by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from socialpub.base.errors import ApiError
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import cursors
from socialpub.domain.organizations import profiles
from socialpub.domain.posts import post_log_query, post_log_schedule
from socialpub.domain.posts.post_log_query import AccountFilter, PostFilter, ScheduleRange
from socialpub.domain.posts.post_log_schedule import SchedulePosition
from socialpub.domain.schemas.posts import BatchesQuery, PostBody, PostsQuery
from socialpub.store import casefold
from socialpub.store.engine import sql
from socialpub.store.queries import post_json
from socialpub.store.rows import PostRow
from socialpub.store.schema.models import Post, find_row_where
from socialpub.store.search import SearchHit

LISTING = "posts"
SCHEDULE_LISTING = "posts by schedule"
SMALL_LIMIT = 100  # posts
FILTER_PARAMETERS = {  # parameters that may read more than the page
    "platform", "status", "error_code", "q", "account_id", "external_id", "external_id_prefix", "scheduled_after",
    "scheduled_before", "order",
}  # fmt: skip
_TIME_MAX = 2**62  # beyond any post's time; negative: before it


def find(scope: Scope, post: str) -> PostRow:
    """Load a post of the scope. Raises ApiError `not_found`."""
    row: PostRow | None = find_row_where(Post, Post.id == post, scope.filter(Post))
    if row is None or not scope.has_account(row["account"]):
        raise _not_found()
    return row


def _not_found() -> ApiError:
    return ApiError("not_found", "There is no post with this id in the scope.")


def load_body(scope: Scope, post: str) -> PostBody:
    """Build the body of a post, as PATCH returns it. Raises ApiError `not_found`."""
    numbers = sql.dump_json([find(scope, post)["number"]])
    body: PostBody = sql.load_json(sql.fetch_value(post_json.FIND_BY_NUMBERS, (numbers,)))
    return body


def load_detail(scope: Scope, post: str) -> bytes:
    """Build the JSON of a post with comment and attempts (`PostDetail`). Raises `not_found`."""
    wanted = (post, scope.organization, scope.profile, scope.account_list)
    found: str | None = sql.fetch_value(post_json.FIND_DETAIL, wanted)
    if found is None:
        raise _not_found()
    return found.encode()


def load_page(service: AppContext, scope: Scope, query: PostsQuery) -> bytes:
    """Build the JSON of one page (`PostPage`), in the requested order.

    Raises ApiError `not_found` for a profile or account out of scope, `cursor` for a cursor of another list or order.
    """
    wanted = build_filter(service, scope, query)
    shown, last = _load_unfiltered(wanted, query.limit) if wanted.is_plain else _load_filtered(wanted, query)
    cursor = "null" if last is None else f'"{build_cursor(service, scope, query, last)}"'
    return f'{{"data":[{shown}],"nextCursor":{cursor}}}'.encode()


def build_cursor(service: AppContext, scope: Scope, query: PostsQuery, last: tuple[int, int]) -> str:
    """Create the cursor of the page after this position."""
    listing = SCHEDULE_LISTING if query.order == "scheduledAt" else LISTING
    return cursors.encode(service, listing, scope.organization, last[0], str(last[1]))


def is_small(scope: Scope, query: PostsQuery) -> bool:
    """Return whether the page is short and read straight from an index: no thread is needed."""
    is_filtered = scope.accounts is not None or query.model_fields_set & FILTER_PARAMETERS
    return query.limit <= SMALL_LIMIT and not is_filtered


PageJson = tuple[str, tuple[int, int] | None]
"""JSON of the posts, and the position of the last one if more follow."""


def _load_unfiltered(wanted: PostFilter, limit: int) -> PageJson:
    """Read a page without filters: one statement that returns one row."""
    if wanted.profile is None:
        statement, owner = post_json.PAGE_OF_ORGANIZATION, wanted.organization
    else:
        statement, owner = post_json.PAGE_OF_PROFILE, wanted.profile
    after = -_TIME_MAX if wanted.after is None else wanted.after
    shown, more, at, last = sql.fetch_one(statement, (owner, after, *(wanted.below or (_TIME_MAX, 0)), limit))
    return shown or "", (at, last) if more else None


def _load_filtered(wanted: PostFilter, query: PostsQuery) -> PageJson:
    limit = query.limit
    found = find_hits(wanted, query, limit + 1)
    shown = sql.fetch_value(post_json.FIND_BY_NUMBERS, (sql.dump_json([hit.number for hit in found[:limit]]),))
    last = found[limit - 1][:2] if len(found) > limit else None
    return shown or "", last


def find_hits(
    wanted: PostFilter, query: PostsQuery | BatchesQuery, count: int
) -> Sequence[SearchHit | SchedulePosition]:
    """Find the first `count` posts of the filter, in the order of the query."""
    if query.order == "scheduledAt":
        return post_log_schedule.find_earliest(wanted, count)
    if wanted.schedule is not None:
        return post_log_schedule.find_newest(wanted, count)
    return post_log_query.find_newest(wanted, count)


def build_filter(
    service: AppContext, scope: Scope, query: PostsQuery | BatchesQuery, listing: str = LISTING
) -> PostFilter:
    """Build the filter from the query and the scope. `listing`: of the query's cursor."""
    narrowed = replace(scope, profile=scope.narrowed(query.profile_id))
    profiles.check_profile(scope, query.profile_id)
    profile, of_accounts = narrowed.profile, None
    if query.account_id:
        account = accounts.find_including_disconnected(narrowed, query.account_id)
        profile, of_accounts = account["profile"], [account]
    elif scope.accounts is not None:
        of_accounts = accounts.list_listed(narrowed)
    return PostFilter(
        scope.organization,
        profile,
        query.batch_id,
        query.platform or (),
        query.status or (),
        query.error_code or (),
        None if query.q is None else casefold.fold(query.q),
        query.after,
        _find_upper_bound(service, scope, query, listing),
        None if of_accounts is None else [AccountFilter(row["id"], row["platform"]) for row in of_accounts],
        _build_schedule(service, scope, query),
        query.external_id or (),
        query.external_id_prefix,
    )


def _find_upper_bound(
    service: AppContext, scope: Scope, query: PostsQuery | BatchesQuery, listing: str
) -> tuple[int, int] | None:
    """Return the lower of the upper bounds: `before` and the cursor's position."""
    bounds = []
    if query.before is not None:
        bounds.append((query.before, 0))
    if query.cursor and query.order == "createdAt":
        bounds.append(_decode_cursor(service, listing, scope, query.cursor))
    return min(bounds, default=None)


def _build_schedule(service: AppContext, scope: Scope, query: PostsQuery | BatchesQuery) -> ScheduleRange | None:
    """Build the bounds on scheduled time; None if immediate posts are listed too."""
    if query.order == "createdAt" and query.scheduled_after is None and query.scheduled_before is None:
        return None
    above = None
    if query.cursor and query.order == "scheduledAt":
        above = _decode_cursor(service, SCHEDULE_LISTING, scope, query.cursor)
    return ScheduleRange(query.scheduled_after, query.scheduled_before, above)


def _decode_cursor(service: AppContext, listing: str, scope: Scope, cursor: str) -> tuple[int, int]:
    """Decode a cursor to (time, post number)."""
    at, number = cursors.decode(service, listing, scope.organization, cursor)
    return at, int(number)
