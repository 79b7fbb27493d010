"""What became of a batch: its answer from the rows as they are, and waiting for its end."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

from socialpub.base.runtime import iso
from socialpub.domain import limits, moves
from socialpub.domain.service import Service
from socialpub.platforms.rules import warning
from socialpub.store.db import Answer, Tx
from socialpub.store.models import Batch, Post

Row = dict[str, Any]


def batch_body(service: Service, batch: str) -> Row:
    """The batch envelope, from the rows as they are now."""
    head = Batch.select().where(Batch.id == batch).dicts().get()
    rows = list(Post.select().where(Post.batch == batch).order_by(Post.position).dicts())
    body = {
        "id": batch,
        "status": _batch_status(head, [row["status"] for row in rows]),
        "createdAt": iso(head["created_at"]),
        "results": [_result(row) for row in rows],
    }
    if head["scheduled_at"] is not None:
        body["scheduledAt"] = iso(head["scheduled_at"])
    return body


def _batch_status(head: Row, statuses: Sequence[str]) -> str:
    if head["scheduled_at"] is not None:
        return "queued"
    if all(status == "published" for status in statuses):
        return "published"
    return "failed" if all(status in ("failed", "rejected") for status in statuses) else "partial_failed"


def _result(row: Row) -> Row:
    unsettled = row["status"] in ("validated", "publishing") and row["scheduled_at"] is None
    warnings = json.loads(row["warnings"]) + ([warning("still_publishing").body()] if unsettled else [])
    known = {
        "uri": row["platform_uri"],
        "cid": row["platform_cid"],
        "url": row["url"],
        "firstCommentUri": row["first_comment_uri"],
        "firstCommentCid": row["first_comment_cid"],
        "warnings": warnings,
        "error": json.loads(row["error"]) if row["error"] else None,
    }
    result = {
        "accountId": row["account"],
        "platform": row["platform"],
        "postId": row["id"],
        # Within the answer a target is either done or on its way.
        "status": "publishing" if unsettled else row["status"],
    }
    return result | {name: value for name, value in known.items() if value}


def complete(service: Service, tx: Tx, batch: str, key_id: str | None) -> limits.Kept:
    """The immediate batch's answer as of now, kept for its key."""
    answer = limits.Kept(200, dumps(batch_body(service, batch)))
    if key_id:
        limits.keep(service, tx, key_id, answer)
    return answer


async def settled(service: Service, batch: str, seconds: float) -> bool:
    """Wait until every target of a batch has come to its end; False when that takes longer, or the server stops."""
    deadline = service.runtime.clock.monotonic() + seconds
    for post in await service.read(lambda: _open_posts(batch)):
        left = deadline - service.runtime.clock.monotonic()
        await service.hub.until(f"post:{post}", functools.partial(_read_ended, service, post), max(0.0, left))
    return await service.read(lambda: is_settled(batch))


def _open_posts(batch: str) -> list[str]:
    query = Post.select(Post.id).where(Post.batch == batch, Post.status.not_in(sorted(moves.TERMINAL)))
    return [row[0] for row in query.order_by(Post.position).tuples()]


def _read_ended(service: Service, post: str) -> Answer[bool | None]:
    return service.read(lambda: _ended(post))


def _ended(post: str) -> bool | None:
    return Post.select().where(Post.id == post, Post.status.in_(sorted(moves.TERMINAL))).exists() or None


def is_settled(batch: str) -> bool:
    """Whether every target of a batch has come to its end."""
    return not Post.select().where(Post.batch == batch, Post.status.not_in(sorted(moves.TERMINAL))).exists()


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
