"""The post log: one post with its attempts, and the rows as the API shows them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from socialpub.base.errors import ApiError
from socialpub.base.runtime import iso
from socialpub.domain.core import cursors
from socialpub.domain.core.service import Service
from socialpub.domain.people import profiles
from socialpub.domain.people.tenancy import Scope
from socialpub.domain.posts import postlog_query
from socialpub.domain.posts.postlog_query import Filter
from socialpub.domain.shapes.posts import AttemptBody, PostBody, PostDetail, PostedComment, PostPage, PostsQuery
from socialpub.store.models import Account, Attempt, Post, rows_where, the_row
from socialpub.store.rows import AccountRow, AttemptRow, PostRow

LISTING = "posts"


def body(row: PostRow, account: AccountRow) -> PostBody:
    """A post as the API shows it."""
    shown: PostBody = {
        "id": row["id"],
        "batchId": row["batch"],
        "profileId": row["profile"],
        "accountId": row["account"],
        "account": {
            "id": account["id"],
            "platform": account["platform"],
            "platformAccountId": account["platform_account_id"],
            "displayName": account["display_name"],
        },
        "platform": row["platform"],
        "status": row["status"],
        "text": row["text"],
        "mediaRefs": json.loads(row["media"]),
        "scheduledAt": iso(row["scheduled_at"]),
        "nextAttemptAt": iso(row["next_attempt_at"]),
        "publishedAt": iso(row["published_at"]),
        "platformUri": row["platform_uri"],
        "platformCid": row["platform_cid"],
        "url": row["url"],
        "warnings": json.loads(row["warnings"]),
        "createdAt": iso(row["created_at"]),
        "updatedAt": iso(row["updated_at"]),
    }
    if row["error"]:
        shown["error"] = json.loads(row["error"])
    return shown


def find(scope: Scope, post: str) -> PostRow:
    """A post of the scope; ApiError `not_found`."""
    query = Post.select().where(Post.id == post, Post.organization == scope.organization)
    if scope.profile:
        query = query.where(Post.profile == scope.profile)
    row: PostRow | None = query.dicts().first()
    if row is None:
        raise ApiError("not_found", "There is no post with this id in the scope.")
    return row


def one(scope: Scope, post: str) -> PostBody:
    """The post alone, as PATCH answers it; ApiError `not_found`."""
    row = find(scope, post)
    return body(row, the_row(Account, row["account"]))


def detail(scope: Scope, post: str) -> PostDetail:
    """The post with its first comment and attempts."""
    row = find(scope, post)
    comment: PostedComment | None = None
    if row["first_comment"]:
        comment = {"text": row["first_comment"], "uri": row["first_comment_uri"], "cid": row["first_comment_cid"]}
    attempts = rows_where(Attempt, Attempt.post == post, order=Attempt.number)
    return {**one(scope, post), "firstComment": comment, "attempts": [_attempt(found) for found in attempts]}


def page(service: Service, scope: Scope, query: PostsQuery) -> PostPage:
    """One page of the post log, newest first.

    ApiError `not_found` for a profile out of scope, `cursor` for a cursor that this list did not make.
    """
    hits = postlog_query.newest(filter_of(service, scope, query), query.limit + 1)
    shown = hits[: query.limit]
    last = shown[-1] if len(hits) > query.limit else None
    cursor = last and cursors.seal(service, LISTING, scope.organization, last.created_at, last.id)
    return {"data": _bodies([hit.number for hit in shown]), "nextCursor": cursor}


def filter_of(service: Service, scope: Scope, query: PostsQuery) -> Filter:
    """What the query asks for within the scope."""
    profile = scope.narrowed(query.profile_id)
    if query.profile_id is not None and not profiles.exists(scope, query.profile_id):
        raise ApiError("not_found", "The organization has no profile with this id.")
    return Filter(
        scope.organization,
        profile,
        query.batch_id,
        query.platform or (),
        query.status or (),
        query.error_code or (),
        None if query.q is None else query.q.casefold(),
        query.after,
        _below(service, scope, query),
    )


def _below(service: Service, scope: Scope, query: PostsQuery) -> tuple[int, str] | None:
    """The lower of the two upper bounds: `before`, and the row that the cursor continues after."""
    places = []
    if query.before is not None:
        places.append((query.before, ""))
    if query.cursor:
        places.append(cursors.unseal(service, LISTING, scope.organization, query.cursor))
    return min(places, default=None)


def _bodies(numbers: Sequence[int]) -> list[PostBody]:
    rows = {row["number"]: row for row in rows_where(Post, Post.number.in_(numbers))}
    used = {row["account"] for row in rows.values()}
    known = {row["id"]: row for row in rows_where(Account, Account.id.in_(used))}
    return [body(rows[number], known[rows[number]["account"]]) for number in numbers]


def _attempt(row: AttemptRow) -> AttemptBody:
    return {
        "id": row["id"],
        "attemptNumber": row["number"],
        "startedAt": iso(row["started_at"]),
        "finishedAt": iso(row["finished_at"]),
        "succeeded": row["succeeded"],
        "errorCode": row["error_code"],
        "errorMessage": row["error_message"],
        "platformResponse": json.loads(row["platform_response"]) if row["platform_response"] else None,
    }
