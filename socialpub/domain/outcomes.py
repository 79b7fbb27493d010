"""The transactions of publishing one post: claim it, write down an intent, record what became of it.

Each is one write function, and each says `jobs.owns(claim)` first: a run whose lease was taken over changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from socialpub.base.errors import ERRORS, ApiError, Outcome, refuse
from socialpub.base.runtime import iso
from socialpub.domain import accounts, media, moves
from socialpub.domain.service import Service
from socialpub.platforms.base import Published, Warning
from socialpub.store.db import Tx
from socialpub.store.models import Account, Attempt, Intent, Post
from socialpub.store.queue import Claim

Row = dict[str, Any]
RETRY_AFTER_MAX = 3600
RESPONSE_MAX = 16 * 1024


class LostClaimError(Exception):
    """Another run has this post now; nothing was written."""


@dataclass(frozen=True)
class Snapshot:
    """Everything one run needs to know, read in the transaction that claimed the post."""

    claim: Claim
    post: Row
    account: Row
    attempt: Row
    assets: dict[str, Row]
    open_intent: Row | None = None  # sent, perhaps: look before anything else
    published: Published | None = None  # by this attempt already; only the first comment is missing
    plan: dict[str, Any] | None = None  # of what is published


def claim(service: Service, tx: Tx, claim: Claim) -> Snapshot | None:
    """Take a post to work on; None when there is nothing to do (its job is then gone)."""
    if not service.jobs.owns(claim):
        return None
    post = Post.select().where(Post.id == claim.key).dicts().first()
    if post is None or post["status"] in moves.TERMINAL:
        service.jobs.finish(tx, claim)
        return None
    account = Account.select().where(Account.id == post["account"]).dicts().get()
    if post["status"] != "publishing":
        refusal = _refusal(account)
        if refusal:
            _refuse(service, tx, claim, post, refusal)
            return None
        post = _begin(service, tx, post)
    attempt = Attempt.select().where(Attempt.post == post["id"], Attempt.number == post["attempts"]).dicts().get()
    intents = list(Intent.select().where(Intent.attempt == attempt["id"]).order_by(Intent.number).dicts())
    done = next((row for row in intents if row["step"] == "publish" and row["outcome"] == Outcome.OK), None)
    return Snapshot(
        claim,
        post,
        account,
        attempt,
        media.assets_of(json.loads(post["media"])),
        open_intent=next((row for row in intents if row["outcome"] is None), None),
        published=_published(done) if done else None,
        plan=json.loads(done["plan"]) if done else None,
    )


def _refusal(account: Row) -> ApiError | None:
    if account["disconnected_at"] is not None:
        return refuse("account.disconnected")
    if account["status"] == "revoked" or account["secret"] is None:
        return refuse("account.reconnect_required")
    return None


def _refuse(service: Service, tx: Tx, claim: Claim, post: Row, error: ApiError) -> None:
    number = post["attempts"] + 1
    _insert_attempt(service, post["id"], number)
    moves.move(service, tx, "refuse", post["id"], attempts=number, **error_columns(service, error, post["platform"]))
    _finish_attempt(service, post["id"], number, error)
    service.jobs.finish(tx, claim)


def _begin(service: Service, tx: Tx, post: Row) -> Row:
    number = post["attempts"] + 1
    nonce = int.from_bytes(service.runtime.entropy(7), "big")
    row = moves.move(
        service,
        tx,
        "claim",
        post["id"],
        attempts=number,
        tries=post["tries"] + 1,
        next_attempt_at=None,
        draft_at=post["draft_at"] or service.now_ms,
        draft_nonce=post["draft_nonce"] or nonce,
    )
    assert row is not None, "the row was read in this transaction"
    _insert_attempt(service, post["id"], number)
    return row


def _insert_attempt(service: Service, post: str, number: int) -> None:
    Attempt.insert(id=service.runtime.ids.uuid(), post=post, number=number, started_at=service.now_ms).execute()


def _finish_attempt(service: Service, post: str, number: int, error: ApiError | None) -> None:
    Attempt.update(
        finished_at=service.now_ms,
        succeeded=error is None,
        error_code=error.code if error else None,
        error_message=error.message if error else None,
        platform_response=capped(error.platform_response) if error and error.platform_response is not None else None,
    ).where(Attempt.post == post, Attempt.number == number).execute()


def _owned(service: Service, snapshot: Snapshot) -> None:
    if not service.jobs.owns(snapshot.claim):
        raise LostClaimError(snapshot.post["id"])


# --- Intents -----------------------------------------------------------------------------------------------------


def intend(
    service: Service, tx: Tx, snapshot: Snapshot, step: str, plan: dict[str, Any], warnings: Sequence[Warning] = ()
) -> Row:
    """Write down what is about to be sent; committed before the first mutating byte."""
    _owned(service, snapshot)
    post, now = snapshot.post["id"], service.now_ms
    row = {
        "id": service.runtime.ids.uuid(),
        "post": post,
        "attempt": snapshot.attempt["id"],
        "account": snapshot.account["id"],
        "step": step,
        "number": Intent.select().where(Intent.post == post, Intent.step == step).count() + 1,
        "plan": json.dumps(plan, ensure_ascii=False),
        "epoch": service.jobs.epoch,
        "intent_at": now,
        "sent_at": now,
        "sends": 1,
        "looks": 0,
        "answered": False,
    }
    Intent.insert(**row).execute()
    if warnings:
        _add_warnings(post, warnings)
    return row


def has_open_intent(post: str) -> bool:
    """Whether something of this post may have been sent and is not settled."""
    return bool(Intent.select().where(Intent.post == post, Intent.outcome.is_null()).exists())


def intend_again(service: Service, tx: Tx, snapshot: Snapshot, intent: Row) -> Row:
    """The same plan is about to be sent once more."""
    _owned(service, snapshot)
    return _change(intent, sent_at=service.now_ms, sends=intent["sends"] + 1, answered=False)


def looked(service: Service, tx: Tx, snapshot: Snapshot, intent: Row, evidence: Any, next_at: int | None) -> Row:
    """Looking did not settle it; with `next_at` the post is given back until then."""
    _owned(service, snapshot)
    changed = _change(intent, looks=intent["looks"] + 1, evidence=capped(evidence))
    if next_at is not None:
        service.jobs.again(tx, snapshot.claim, next_at)
    return changed


def answered(service: Service, tx: Tx, snapshot: Snapshot, intent: Row, error: ApiError) -> Row:
    """The send got an answer, only not a clear one: that call is over, nothing of it is still on its way."""
    _owned(service, snapshot)
    return _change(intent, answered=True, evidence=capped(error.platform_response))


def _change(intent: Row, **columns: Any) -> Row:
    Intent.update(**columns).where(Intent.id == intent["id"], Intent.outcome.is_null()).execute()
    return intent | columns


def close_intent(service: Service, intent: Row, outcome: str, published: Published | None = None) -> None:
    """Settle an open intent; `published` binds the remote post to it."""
    Intent.update(
        outcome=outcome,
        settled_at=service.now_ms,
        remote_id=published.remote_id if published else None,
        result=json.dumps(_published_body(published)) if published else None,
    ).where(Intent.id == intent["id"], Intent.outcome.is_null()).execute()


def _published_body(published: Published) -> dict[str, Any]:
    return {
        "remote_id": published.remote_id,
        "uri": published.uri,
        "cid": published.cid,
        "url": published.url,
        "warnings": [warning.body() for warning in published.warnings],
    }


def _published(intent: Row) -> Published:
    found = json.loads(intent["result"])
    return Published(**(found | {"warnings": tuple(Warning(**warning) for warning in found["warnings"])}))


# --- Ends --------------------------------------------------------------------------------------------------------


def sent(service: Service, tx: Tx, snapshot: Snapshot, intent: Row, published: Published, *, last: bool) -> None:
    """The platform has the post. `last`: no first comment follows, so the row is published in the same transaction."""
    _owned(service, snapshot)
    close_intent(service, intent, Outcome.OK, published)
    if last:
        _publish(service, tx, snapshot, published, None, ())


def commented(
    service: Service, tx: Tx, snapshot: Snapshot, intent: Row, published: Published, comment: Published
) -> None:
    """The first comment is there too."""
    _owned(service, snapshot)
    close_intent(service, intent, Outcome.OK, comment)
    _publish(service, tx, snapshot, published, comment, ())


def uncommented(
    service: Service,
    tx: Tx,
    snapshot: Snapshot,
    intent: Row | None,
    published: Published,
    warning: Warning,
    outcome: str,
) -> None:
    """The post is out, its first comment is not: a warning, never a failure."""
    _owned(service, snapshot)
    if intent:
        close_intent(service, intent, outcome)
    _publish(service, tx, snapshot, published, None, (warning,))


def _publish(
    service: Service,
    tx: Tx,
    snapshot: Snapshot,
    published: Published,
    comment: Published | None,
    warnings: Sequence[Warning],
) -> None:
    post = snapshot.post["id"]
    _add_warnings(post, (*published.warnings, *warnings))
    moves.move(
        service,
        tx,
        "publish",
        post,
        published_at=service.now_ms,
        platform_uri=published.uri,
        platform_cid=published.cid,
        url=published.url,
        first_comment_uri=comment.uri if comment else None,
        first_comment_cid=comment.cid if comment else None,
        error=None,
        error_code=None,
        saved=None,
    )
    _finish_attempt(service, post, snapshot.attempt["number"], None)
    service.jobs.finish(tx, snapshot.claim)


def pending(service: Service, tx: Tx, snapshot: Snapshot, saved: dict[str, Any], seconds: float) -> None:
    """Preparing goes on later; the post keeps its place and rings again."""
    _owned(service, snapshot)
    Post.update(saved=json.dumps(saved)).where(Post.id == snapshot.post["id"]).execute()
    service.jobs.again(tx, snapshot.claim, service.now_ms + int(seconds * 1000))


def failed(
    service: Service, tx: Tx, snapshot: Snapshot, error: ApiError, intent: Row | None = None, outcome: str = ""
) -> None:
    """The attempt is over without a post. Scheduled posts are tried again after `platform_unavailable`."""
    _owned(service, snapshot)
    if intent:
        close_intent(service, intent, outcome)
    post = snapshot.post
    _finish_attempt(service, post["id"], snapshot.attempt["number"], error)
    if error.rule == "account.reconnect_required":
        accounts.mark_revoked(service, tx, snapshot.account["id"], error.message)
    columns = error_columns(service, error, post["platform"])
    wait = _retry_wait(service, post, error)
    if wait is not None:
        at = service.now_ms + wait
        moves.move(service, tx, "wait", post["id"], **(columns | {"next_attempt_at": at}))
        service.jobs.again(tx, snapshot.claim, at)
        return
    name = "reject" if ERRORS[error.code].post_status == "rejected" else "fail"
    moves.move(service, tx, name, post["id"], **columns)
    service.jobs.finish(tx, snapshot.claim)


def _retry_wait(service: Service, post: Row, error: ApiError) -> int | None:
    """Milliseconds until the next attempt; None when there is none."""
    waits = service.runtime.settings.publishing.retry_waits
    tried = post["tries"]
    if post["scheduled_at"] is None or error.code != "platform_unavailable" or tried > len(waits):
        return None
    if error.rule == "publish.outcome_unknown" or not error.retryable:
        return None
    after = error.retry_after or 0
    return None if after > RETRY_AFTER_MAX else int(max(waits[tried - 1], after) * 1000)


def overdue(service: Service, tx: Tx, post: Row) -> None:
    """A post that was due too long ago, found at start: never dropped in silence, never sent late by surprise."""
    due = iso(post["next_attempt_at"] or post["scheduled_at"] or post["created_at"])
    error = refuse("schedule.overdue", f"The post was due at {due}, and the server was not running.")
    if post["status"] == "publishing":
        _finish_attempt(service, post["id"], post["attempts"], error)
    moves.move(service, tx, "overdue", post["id"], **error_columns(service, error, post["platform"]))
    service.jobs.remove(tx, post["id"])


def error_columns(service: Service, error: ApiError, platform: str) -> dict[str, Any]:
    """What a row keeps of an error: the error object as results show it."""
    error.platform = error.platform or platform
    shown = error.body(service.base_url)
    if "platformResponse" in shown:
        shown["platformResponse"] = json.loads(capped(shown["platformResponse"]))
    return {"error": json.dumps(shown, ensure_ascii=False), "error_code": error.code, "next_attempt_at": None}


def capped(value: Any) -> str:
    """A raw upstream answer as JSON of at most 16 KiB."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text.encode("utf-8", "replace")) <= RESPONSE_MAX:
        return text
    return json.dumps({"truncated": text[: RESPONSE_MAX // 4]}, ensure_ascii=False)


def _add_warnings(post: str, warnings: Sequence[Warning]) -> None:
    kept = json.loads(Post.select(Post.warnings).where(Post.id == post).scalar())
    added = [body for body in (warning.body() for warning in warnings) if body not in kept]
    if added:
        Post.update(warnings=json.dumps(kept + added, ensure_ascii=False)).where(Post.id == post).execute()
