"""Transactions of publishing one post: claim it, record the outcome.

Each checks that the claim is still held: a run whose lease was taken over changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from socialpub.base.error_codes import ERRORS
from socialpub.base.errors import ApiError, Outcome, rule_error
from socialpub.base.json_codec import dumps
from socialpub.domain import post_states
from socialpub.domain.accounts import api_versions, attention, tokens
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.publishing import intents, overdue_rule, unknown_outcomes
from socialpub.domain.publishing.intents import (
    ACCEPTED,
    LostClaimError,
    RunSnapshot,
    add_warnings,
    check_claim,
    close,
    decode_published,
    encode_capped,
)
from socialpub.domain.schemas.errors import build_error_body
from socialpub.platforms.contract import Pending, Published, PublishWarning
from socialpub.store.database import Tx
from socialpub.store.engine import id_fields, sql
from socialpub.store.jobs.leases import Claim
from socialpub.store.queries import publish_runs
from socialpub.store.rows import AccountRow, IntentRow, MediaRow, PostRow
from socialpub.store.schema.models import Post, find_row_where

RETRY_AFTER_MAX = 3600
_ID_INDEX, _STATUS_INDEX = (list(PostRow.__annotations__).index(name) for name in ("id", "status"))
_POST_COLUMNS = len(PostRow.__annotations__)  # number of post columns in the claimed row, followed by the account's
_ACCOUNT_END = _POST_COLUMNS + len(AccountRow.__annotations__)


def claim_posts(service: AppContext, tx: Tx, claims: Sequence[Claim]) -> list[RunSnapshot | None]:
    """Claim posts; None for one with nothing to do, whose job is then finished."""
    keys = sql.dump_json([(claim.key, claim.claims) for claim in claims])
    rows = {
        found[_ID_INDEX]: found for found in sql.load_json(sql.fetch_value(publish_runs.FIND_CLAIMED_POSTS, (keys,)))
    }
    snapshots = {claim.key: _check_claimed(service, tx, claim, rows.get(claim.key)) for claim in claims}
    fresh = [snapshot for snapshot in snapshots.values() if snapshot and not snapshot.resumed]
    posts = _transition(service, tx, fresh)
    _insert_attempts(service, tx, posts)
    for snapshot, post in zip(fresh, posts, strict=True):
        snapshots[post["id"]] = replace(snapshot, post=post)
    return list(snapshots.values())


class InsertedPost(NamedTuple):
    """Post inserted as claimed by this transaction, with what `claim_posts` would read."""

    post: PostRow
    account: AccountRow
    request_id: str | None
    organization: int


def claim_inserted(
    service: AppContext, tx: Tx, claims: Sequence[Claim], inserted: Mapping[str, InsertedPost]
) -> list[RunSnapshot | None]:
    """Claim posts that were just inserted with their first attempts, without reading them."""
    snapshots = [_claim_one_inserted(service, tx, claim, inserted[claim.key]) for claim in claims]
    _insert_attempts(service, tx, [each.post for each in snapshots if each])
    return snapshots


def _claim_one_inserted(service: AppContext, tx: Tx, claim: Claim, inserted: InsertedPost) -> RunSnapshot | None:
    snapshot = RunSnapshot(claim, *inserted, _load_assets(inserted.post))
    return None if _end_unpublishable(service, tx, snapshot) else snapshot


def _load_assets(post: PostRow) -> dict[str, MediaRow]:
    return library.load_assets(json.loads(post["media"])) if post["media"] != "[]" else {}


def _check_claimed(service: AppContext, tx: Tx, claim: Claim, found: Sequence[Any] | None) -> RunSnapshot | None:
    """Check a claimed post and load its attempt; None if nothing is to be done."""
    if found is None or found[_STATUS_INDEX] in post_states.TERMINAL_STATES:
        service.jobs.finish(tx, claim)
        return None
    post = sql.to_row(PostRow, found[:_POST_COLUMNS])
    account = sql.to_row(AccountRow, found[_POST_COLUMNS:_ACCOUNT_END])
    if post_states.is_waiting_piece(post):  # it gets a job when the piece before it is published
        service.jobs.finish(tx, claim)
        return None
    request_id, organization = found[_ACCOUNT_END:]
    snapshot = RunSnapshot(claim, post, account, request_id, organization, _load_assets(post))
    resumed = post["status"] == "publishing"  # attempt of another run
    if _end_unpublishable(service, tx, snapshot, resumed=resumed):
        return None
    return _load_resumed(snapshot) if resumed else snapshot


def _end_unpublishable(service: AppContext, tx: Tx, snapshot: RunSnapshot, *, resumed: bool = False) -> bool:
    """End a post that cannot be published any more; return whether it was one."""
    if not resumed and (problem := find_account_problem(snapshot.account)):
        _record_refusal(service, tx, snapshot, problem)
        return True
    if overdue := overdue_rule.find_error(service, snapshot.post):
        _record_overdue(service, tx, snapshot.post, overdue)
        service.jobs.finish(tx, snapshot.claim)
        return True
    return False


def _load_resumed(snapshot: RunSnapshot) -> RunSnapshot:
    """Add what the attempt has sent so far."""
    rows = intents.load_of_attempt(snapshot.post["id"], snapshot.attempt)
    publishing = intents.find_publishing_intent(rows)
    return replace(
        snapshot,
        open_intent=next((row for row in rows if row["outcome"] is None), None),
        published=decode_published(publishing) if publishing else None,
        plan=json.loads(publishing["plan"]) if publishing else None,
        resumed=True,
    )


def find_account_problem(account: AccountRow) -> ApiError | None:
    """Return the reason why nothing is published to the account; None if it is ready."""
    if account["disconnected_at"] is not None:
        return rule_error("account.disconnected")
    if account["status"] == "revoked" or account["secret"] is None:
        return rule_error("account.reconnect_required")
    return None


def _record_refusal(service: AppContext, tx: Tx, snapshot: RunSnapshot, error: ApiError) -> None:
    post, account = snapshot.post, snapshot.account
    number, name = post["attempts"] + 1, "refuse"
    if post["status"] == "publishing":  # inserted as claimed, by this transaction
        number, name = post["attempts"], "reject"
    elif post_states.is_completed_remotely(post):
        error, name = unknown_outcomes.build_unreported_error(post, account, error), "doubt"
    _insert_attempts(service, tx, [{**post, "attempts": number}])
    post_states.apply(
        service, tx, name, post["id"], attempts=number, **build_error_columns(service, error, post["platform"])
    )
    _end_attempt(service, tx, post["id"], number, error)
    service.jobs.finish(tx, snapshot.claim)


def generate_nonce(service: AppContext) -> int:
    """Generate the nonce that, with the time, makes up the post's keys at platforms."""
    return int.from_bytes(service.runtime.entropy(7), "big")


def _transition(service: AppContext, tx: Tx, snapshots: Sequence[RunSnapshot]) -> list[PostRow]:
    """Transition the posts to their next attempt; return the new rows."""
    claimed = []
    for snapshot in snapshots:
        post = snapshot.post
        columns = {
            "attempts": post["attempts"] + 1,
            "tries": post["tries"] + 1,
            "draft_at": post["draft_at"] or service.now_ms,
            "draft_nonce": post["draft_nonce"] or generate_nonce(service),
        }
        claimed.append((post, columns))
    return post_states.apply_claims(service, tx, claimed)


def _insert_attempts(service: AppContext, tx: Tx, posts: Sequence[PostRow]) -> None:
    """Insert an attempt for each post."""
    rows = [(id_fields.encode_id(service.runtime.ids.uuid()), post["number"], post["attempts"]) for post in posts]
    sql.insert(publish_runs.INSERT_ATTEMPTS, rows, (service.now_ms,))


def _end_attempt(service: AppContext, tx: Tx, post: str, number: int, error: ApiError | None) -> None:
    columns: tuple[str | None, ...] = (None, None, None)
    if error:
        answer = None if error.platform_response is None else encode_capped(error.platform_response)
        columns = (error.code, error.message, answer)
    sql.execute(publish_runs.RECORD_ATTEMPT, (service.now_ms, error is None, *columns, post, number))


# --- Sending ---


def record_intent(
    service: AppContext,
    tx: Tx,
    snapshot: RunSnapshot,
    step: str,
    plan: dict[str, Any],
    warnings: Sequence[PublishWarning],
) -> IntentRow | ApiError:
    """Record a send, or return why it must not happen any more: preparing may take long."""
    found = sql.fetch_one(
        publish_runs.FIND_ACCOUNT, (snapshot.claim.key, snapshot.claim.claims, snapshot.account["id"])
    )
    if found is None:
        raise LostClaimError(snapshot.post["id"])
    account = sql.to_row(AccountRow, found)
    problem = find_account_problem(account)
    error = problem or overdue_rule.find_error(service, snapshot.post, overdue_rule.PREPARING_MS)
    return error or intents.record(service, tx, snapshot, step, plan, warnings)


# --- Ends --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SuccessfulSend:
    """Successful send without first comment.

    `on_done`: called after the commit and before anyone is notified, so that a follow-up post finds the account free.
    """

    service: AppContext
    snapshot: RunSnapshot
    intent: IntentRow
    published: Published
    on_done: Callable[[], None] | None = None


def publish_sent(tx: Tx, sends: Sequence[SuccessfulSend]) -> list[None]:
    """Publish the posts in one transaction with shared statements."""
    service = sends[0].service
    for one in sends:
        if one.on_done is not None:
            tx.after_commit(one.on_done)
    intents.close_published(service, tx, [(one.intent, one.published) for one in sends])
    _publish(service, tx, [_PublishedPost(one.snapshot, one.published, one.intent["plan"]) for one in sends])
    return [None] * len(sends)


def record_sent(service: AppContext, tx: Tx, snapshot: RunSnapshot, intent: IntentRow, published: Published) -> None:
    """Record the sent post, whose first comment follows."""
    check_claim(service, snapshot)
    close(service, tx, intent, Outcome.OK, published)


def publish_with_comment(
    service: AppContext, tx: Tx, snapshot: RunSnapshot, intent: IntentRow, published: Published, comment: Published
) -> None:
    """Publish the post with its first comment."""
    intents.close_published(service, tx, [(intent, comment)])
    _publish(service, tx, [_PublishedPost(snapshot, published, dumps(snapshot.plan), comment)])


def publish_without_comment(
    service: AppContext,
    tx: Tx,
    snapshot: RunSnapshot,
    intent: IntentRow | None,
    published: Published,
    warning: PublishWarning,
    outcome: str,
) -> None:
    """Publish the post; its failed first comment is a warning."""
    if intent:
        close(service, tx, intent, outcome)
    _publish(service, tx, [_PublishedPost(snapshot, published, dumps(snapshot.plan), warnings=(warning,))])


@dataclass(frozen=True)
class _PublishedPost:
    """Published post with its first comment, if any."""

    snapshot: RunSnapshot
    published: Published
    plan: str  # JSON
    comment: Published | None = None
    warnings: Sequence[PublishWarning] = ()

    @property
    def previous(self) -> str | None:
        """Published piece as the next one of its thread needs it; None without a thread."""
        if self.snapshot.post["thread_position"] is None:
            return None
        found = self.published
        return encode_previous(found.remote_id, found.uri, found.cid, self.plan)

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of the post's row."""
        published, comment = self.published, self.comment
        return {
            "platform_uri": published.uri,
            "platform_cid": published.cid,
            "url": published.url if (published.url or "").startswith("https://") else None,  # it is shown as a link
            "first_comment_uri": comment.uri if comment else None,
            "first_comment_cid": comment.cid if comment else None,
        }


def encode_previous(remote_id: str | None, uri: str | None, cid: str | None, plan: str) -> str:
    """Encode a published piece for the one after it. `plan`: JSON of what was sent."""
    return dumps({"remote_id": remote_id, "uri": uri, "cid": cid, "plan": json.loads(plan)})


class MixedGroupError(Exception):
    """Group cannot be written together: write each alone."""


def _publish(service: AppContext, tx: Tx, ends: Sequence[_PublishedPost]) -> None:
    """Record published posts. Raises LostClaimError, with nothing written, for a lost claim."""
    snapshots = [end.snapshot for end in ends]
    warned = {end.snapshot.post["id"]: _merge_warnings(tx, end) for end in ends}
    if not post_states.apply_published(service, tx, [_build_published(end, warned) for end in ends]) and len(ends) > 1:
        raise MixedGroupError
    attempts = [(each.post["id"], each.attempt) for each in snapshots]
    sql.update_all(publish_runs.RECORD_SUCCESSFUL_ATTEMPTS, attempts, (service.now_ms,))
    attention.clear(service, tx, [each.account["id"] for each in snapshots])
    if not service.jobs.finish_all(tx, [each.claim for each in snapshots]):
        raise LostClaimError(snapshots[0].post["id"])


def _merge_warnings(tx: Tx, end: _PublishedPost) -> str:
    """Return the post's final warnings, as JSON."""
    post, more = end.snapshot.post, (*end.published.warnings, *end.warnings)
    if not more and not end.snapshot.warned:
        return post["warnings"]
    add_warnings(tx, post["id"], more)
    return str(sql.fetch_value(publish_runs.FIND_WARNINGS, (post["id"],)))


def _build_published(end: _PublishedPost, warned: Mapping[str, str]) -> post_states.PublishedUpdate:
    snapshot = end.snapshot
    post, warnings = snapshot.post, warned[snapshot.post["id"]]
    if warnings != post["warnings"]:
        post = {**post, "warnings": warnings}
    return post_states.PublishedUpdate(post, snapshot.organization, end.columns, snapshot.request_id, end.previous)


def save_progress(
    service: AppContext, tx: Tx, snapshot: RunSnapshot, found: Pending, intent: IntentRow | None = None
) -> None:
    """Save the progress and schedule the next poll, within an hour.

    `intent`: the send that was accepted.
    """
    check_claim(service, snapshot)
    if intent:
        close(service, tx, intent, ACCEPTED)
    at = service.now_ms + int(min(found.seconds, RETRY_AFTER_MAX) * 1000)
    sql.execute(publish_runs.SET_PROGRESS, (json.dumps(found.saved), at, snapshot.post["id"]))
    service.jobs.reschedule(tx, snapshot.claim, at)


def postpone(service: AppContext, tx: Tx, snapshot: RunSnapshot, seconds: float) -> None:
    """Postpone a post for which nothing was done yet."""
    check_claim(service, snapshot)
    at = service.now_ms + int(seconds * 1000)
    sql.execute(publish_runs.SET_DUE_AT, (at, snapshot.post["id"]))
    service.jobs.reschedule(tx, snapshot.claim, at)


def record_failure(
    service: AppContext,
    tx: Tx,
    snapshot: RunSnapshot,
    error: ApiError,
    intent: IntentRow | None = None,
    outcome: str = "",
) -> None:
    """Record a failed attempt; scheduled posts retry after `platform_unavailable`."""
    check_claim(service, snapshot)
    if intent:
        close(service, tx, intent, outcome)
    post, wait = snapshot.post, _compute_retry_wait(service, snapshot.post, error)
    tries = post["tries"] - error.held_back
    tokens.record_refusal(service, tx, snapshot.account, error)
    api_versions.notify_refused(service, tx, post["organization"], post["platform"], error)
    if wait is None and not error.absent and post_states.is_completed_remotely(post):
        error = unknown_outcomes.build_unreported_error(post, snapshot.account, error)
    _end_attempt(service, tx, post["id"], snapshot.post["attempts"], error)
    columns = build_error_columns(service, error, post["platform"])
    if outcome == "absent" or error.prepare_again:
        columns["saved"] = None  # the prepared containers were not published: prepare new ones next time
    if wait is not None:
        at = service.now_ms + wait
        columns |= {"next_attempt_at": at, "due_at": at, "tries": tries}
        post_states.apply(service, tx, "wait", post["id"], request_id=snapshot.request_id, **columns)
        service.jobs.reschedule(tx, snapshot.claim, at)
        return
    name = "reject" if ERRORS[error.code].post_status == "rejected" else "fail"
    post_states.apply(service, tx, name, post["id"], request_id=snapshot.request_id, **columns)
    service.jobs.finish(tx, snapshot.claim)


def _compute_retry_wait(service: AppContext, post: PostRow, error: ApiError) -> int | None:
    """Return the milliseconds until the next attempt; None if there is none."""
    wait_times = service.runtime.settings.publishing.retry_waits
    tries = post["tries"]
    if (
        post["scheduled_at"] is None
        or error.code != "platform_unavailable"
        or (tries > len(wait_times) and not error.held_back)
    ):
        return None
    if error.rule == "publish.outcome_unknown" or not error.retryable:
        return None
    if error.held_back:
        return int((error.retry_after or 1) * 1000)
    after = error.retry_after or 0
    return None if after > RETRY_AFTER_MAX else int(max(wait_times[tries - 1], after) * 1000)


def fail_overdue(service: AppContext, tx: Tx, found: overdue_rule.DuePost) -> None:
    """Fail an overdue post, unless it was rescheduled or is being sent."""
    post = find_row_where(Post, Post.id == found["id"], Post.status.in_(post_states.OPEN_STATES))
    if (
        post is None
        or overdue_rule.get_due_time(post) != overdue_rule.get_due_time(found)
        or overdue_rule.may_have_sent(post["id"])
    ):
        return
    _record_overdue(service, tx, post, overdue_rule.build_error(service, post))
    service.jobs.remove(tx, post["id"])


def _record_overdue(service: AppContext, tx: Tx, post: PostRow, error: ApiError) -> None:
    """Fail an overdue post with an event; it is never published late."""
    if post["status"] == "publishing":
        _end_attempt(service, tx, post["id"], post["attempts"], error)
    post_states.apply(service, tx, "overdue", post["id"], **build_error_columns(service, error, post["platform"]))


def build_error_columns(service: AppContext, error: ApiError, platform: str) -> dict[str, Any]:
    """Build the error columns of a post, as results show them."""
    error.platform = error.platform or platform
    shown = build_error_body(error, service.base_url)
    if error.code == "platform_unavailable" and error.retry_after:
        message = unknown_outcomes.end_sentence(error.message)
        shown["message"] = f"{message} It asks to wait {error.retry_after} seconds."
        shown["retryAfter"] = error.retry_after
    if "platformResponse" in shown:
        shown["platformResponse"] = json.loads(encode_capped(shown["platformResponse"]))
    return {"error": dumps(shown), "error_code": error.code, "next_attempt_at": None}
