"""The post log: one post with its attempts, and the rows as the API shows them."""

from __future__ import annotations

import json
from typing import Any

from socialpub.base.runtime import iso
from socialpub.domain import posts, schemas
from socialpub.domain.service import Service
from socialpub.domain.tenancy import Scope
from socialpub.store.models import Account, Attempt, Post

Row = dict[str, Any]


def body(row: Row, account: Row) -> Row:
    """A post as the API shows it."""
    shown = {
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
    return shown | ({"error": json.loads(row["error"])} if row["error"] else {})


def one(scope: Scope, post: str) -> Row:
    """The post alone, as PATCH answers it; ApiError `not_found`."""
    row = posts.find(scope, post)
    return body(row, Account.select().where(Account.id == row["account"]).dicts().get())


def detail(scope: Scope, post: str) -> Row:
    """The post with its first comment and attempts."""
    row = posts.find(scope, post)
    comment = None
    if row["first_comment"]:
        comment = {"text": row["first_comment"], "uri": row["first_comment_uri"], "cid": row["first_comment_cid"]}
    attempts = Attempt.select().where(Attempt.post == post).order_by(Attempt.number).dicts()
    return one(scope, post) | {"firstComment": comment, "attempts": [_attempt(found) for found in attempts]}


def page(service: Service, scope: Scope, query: schemas.PostsQuery) -> Row:
    """One page of the post log, newest first."""
    found = Post.select().where(Post.organization == scope.organization)
    rows = list(found.order_by(Post.created_at.desc(), Post.id.desc()).limit(query.limit).dicts())
    known = {row["id"]: row for row in Account.select().where(Account.id.in_({row["account"] for row in rows})).dicts()}
    return {"data": [body(row, known[row["account"]]) for row in rows], "nextCursor": None}


def _attempt(row: Row) -> Row:
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
