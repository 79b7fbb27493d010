"""Intents: the record of a send, written before it and settled by its outcome.

Write functions first check `check_claim`: a run whose lease was taken over changes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from typing_extensions import TypedDict, Unpack

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.observability.redaction import RESPONSE_MAX
from socialpub.base.runtime import DAY_MS
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.schemas.errors import build_warning_body
from socialpub.platforms.contract import Published, PublishWarning
from socialpub.platforms.kit.rule_catalog import remove_duplicates
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.jobs.leases import Claim
from socialpub.store.queries import publish_runs
from socialpub.store.rows import AccountRow, IntentRow, MediaRow, PostRow
from socialpub.store.schema.models import Intent

SAME_PLAN_WINDOW_MS = DAY_MS
ACCEPTED = "taken"  # outcome of a send that the platform accepted but has not finished


class LostClaimError(Exception):
    """Claim taken over by another run; nothing was written."""


class RemotePostTakenError(Exception):
    """Remote post that belongs, or may belong, to another post; nothing was written."""


class SendReply(TypedDict):
    """Platform's response to a send: message and raw response."""

    message: str
    response: Any


class IntentChange(TypedDict, total=False):
    """Columns that a run changes on an open intent."""

    sent_at: int
    sends: int
    looks: int
    answered: bool
    refusal: str | None
    evidence: str


@dataclass(frozen=True)
class RunSnapshot:
    """Rows that one run needs, read in the claiming transaction."""

    claim: Claim
    post: PostRow
    account: AccountRow
    request_id: str | None
    organization: int  # surrogate key
    assets: dict[str, MediaRow]
    intended: IntentRow | None = None  # recorded with the claim and not sent yet
    open_intent: IntentRow | None = None  # possibly sent: look it up first
    published: Published | None = None  # already published by this attempt; only the first comment is missing
    plan: dict[str, Any] | None = None  # plan of the published post
    resumed: bool = False  # the attempt was started by another run
    warned: bool = False  # warnings were added after the post was read

    @property
    def attempt(self) -> int:
        """Number of this attempt."""
        return self.post["attempts"]


def check_claim(service: AppContext, snapshot: RunSnapshot) -> None:
    if not service.jobs.owns(snapshot.claim):
        raise LostClaimError(snapshot.post["id"])


def check_same_plan(intent: IntentRow) -> None:
    """Raise RemotePostTakenError if another intent has the same plan."""
    since, until = intent["intent_at"] - SAME_PLAN_WINDOW_MS, intent["intent_at"] + SAME_PLAN_WINDOW_MS
    if sql.fetch_one(
        publish_runs.FIND_UNSETTLED_DUPLICATE, (intent["account"], intent["plan"], intent["id"], since, until)
    ):
        raise RemotePostTakenError(intent["id"])


def record(
    service: AppContext,
    tx: Tx,
    snapshot: RunSnapshot,
    step: str,
    plan: dict[str, Any],
    warnings: Sequence[PublishWarning] = (),
) -> IntentRow:
    """Record a send before its first mutating byte; the caller has checked the claim."""
    row = _build_row(service, snapshot, step, plan)
    values = (row["post"], row["attempt"], row["account"], step, row["plan"], row["epoch"], row["intent_at"])
    row["id"], row["number"] = sql.fetch_one(publish_runs.INSERT_INTENT, values)
    add_warnings(tx, row["post"], warnings)
    return row


PlannedSend = tuple[RunSnapshot, dict[str, Any], Sequence[PublishWarning]]
"""Claimed post, plan and warnings."""


def record_all(service: AppContext, tx: Tx, planned: Sequence[PlannedSend]) -> list[IntentRow]:
    """Record several sends; first attempts, without earlier sends, with shared statements."""
    first = [each for each in planned if each[0].attempt == 1 and not each[0].resumed]
    rows = {row["post"]: row for row in _record_first_attempts(service, tx, first)}
    return [
        rows.get(snapshot.post["id"]) or record(service, tx, snapshot, "publish", plan, warnings)
        for snapshot, plan, warnings in planned
    ]


def _record_first_attempts(service: AppContext, tx: Tx, planned: Sequence[PlannedSend]) -> list[IntentRow]:
    rows = [_build_row(service, snapshot, "publish", plan) for snapshot, plan, _ in planned]
    inserted = [
        (snapshot.post["number"], snapshot.account["number"], row["plan"])
        for row, (snapshot, *_) in zip(rows, planned, strict=True)
    ]
    last = sql.insert(publish_runs.INSERT_FIRST_INTENTS, inserted, (1, "publish", service.jobs.epoch, service.now_ms))
    for row, (_, _, warnings) in zip(rows, planned, strict=True):
        add_warnings(tx, row["post"], warnings)
    first = (last or 0) - len(rows) + 1  # consecutive, because there is only one writer
    return [{**row, "id": id_, "number": 1} for id_, row in enumerate(rows, first)]


def _build_row(service: AppContext, snapshot: RunSnapshot, step: str, plan: dict[str, Any]) -> IntentRow:
    """Build an intent that is not stored yet."""
    now = service.now_ms
    return {
        "id": 0,
        "post": snapshot.post["id"],
        "attempt": snapshot.attempt,
        "account": snapshot.account["id"],
        "step": step,
        "number": 0,
        "plan": json.dumps(plan, ensure_ascii=False),
        "epoch": service.jobs.epoch,
        "intent_at": now,
        "sent_at": now,
        "sends": 1,
        "looks": 0,
        "answered": False,
        "refusal": None,
        "outcome": None,
        "remote": None,
        "result": None,
        "evidence": None,
        "settled_at": None,
        "settled_by": None,
    }


def find_open(post: str) -> IntentRow | None:
    """Load the post's intent that may have been sent and is not settled."""
    row = sql.fetch_one(publish_runs.FIND_OPEN_INTENT, (post,))
    return row and _parse_row(row)


def load_of_attempt(post: str, attempt: int) -> list[IntentRow]:
    """Load the intents of an attempt in order."""
    return [_parse_row(row) for row in sql.fetch_all(publish_runs.FIND_INTENTS, (post, attempt))]


def _parse_row(values: Sequence[Any]) -> IntentRow:
    row = sql.to_row(IntentRow, values)
    return {**row, "answered": bool(row["answered"])}


def find_published(post: str, attempt: int) -> Published | None:
    """Return what this attempt has already published."""
    row = find_publishing_intent(load_of_attempt(post, attempt))
    return decode_published(row) if row else None


def find_publishing_intent(intents: Sequence[IntentRow]) -> IntentRow | None:
    """Find the intent of the attempt that published the post."""
    return next((row for row in intents if row["step"] == "publish" and row["outcome"] == Outcome.OK), None)


@dataclass(frozen=True)
class BoundRemoteIds(Container[str]):
    """Remote ids of the account that belong to other posts than this intent's.

    Each is looked up on demand: there may be very many, and only lookups need them.
    """

    service: AppContext
    intent: IntentRow

    def __contains__(self, remote_id: object) -> bool:
        return self.service.read(lambda: is_bound(self.intent, str(remote_id))).result()


def load_earlier(intent: IntentRow) -> list[IntentRow]:
    """Load the post's earlier sends that were not refused, newest first."""
    mine = (intent["post"], intent["step"], intent["number"])
    return [_parse_row(row) for row in sql.fetch_all(publish_runs.FIND_EARLIER_INTENTS, mine)]


def record_resend(service: AppContext, tx: Tx, snapshot: RunSnapshot, intent: IntentRow) -> IntentRow:
    """Record that the same plan is about to be sent again."""
    check_claim(service, snapshot)
    return _update(tx, intent, sent_at=service.now_ms, sends=intent["sends"] + 1, answered=False)


def record_lookup(
    service: AppContext, tx: Tx, snapshot: RunSnapshot, intent: IntentRow, evidence: Any, next_at: int | None
) -> IntentRow:
    """Record an inconclusive lookup; release the post until `next_at`. Keeps a stored response."""
    check_claim(service, snapshot)
    reply = find_reply(intent)
    stored = {"answer": reply, "look": json.loads(encode_capped(evidence, RESPONSE_MAX // 4))} if reply else evidence
    changed = _update(tx, intent, looks=intent["looks"] + 1, evidence=encode_capped(stored))
    if next_at is not None:
        service.jobs.reschedule(tx, snapshot.claim, next_at)
    return changed


def record_ambiguity(
    service: AppContext,
    tx: Tx,
    snapshot: RunSnapshot,
    intent: IntentRow,
    error: ApiError,
    *,
    is_answered: bool,
    refused: bool,
) -> IntentRow:
    """Record an ambiguous response. `is_answered`: no call in flight. `refused`: a refusal."""
    check_claim(service, snapshot)
    refusal = json.dumps({name: getattr(error, name) for name in REFUSAL_FIELDS}, default=str) if refused else None
    response = json.loads(encode_capped(error.platform_response, RESPONSE_MAX // 2))
    reply = {"message": error.message[:1000], "response": response}
    return _update(tx, intent, answered=is_answered, evidence=encode_capped({"answer": reply}), refusal=refusal)


def find_reply(intent: IntentRow) -> SendReply | None:
    """Return the stored response to a send, if any."""
    evidence = json.loads(intent["evidence"] or "null")
    reply = evidence.get("answer") if isinstance(evidence, dict) else None
    return cast(SendReply, reply) if isinstance(reply, dict) and reply.get("response") is not None else None


REFUSAL_FIELDS = (
    "code",
    "message",
    "rule",
    "platform_version",
    "platform_response",
    "remediation",
    "retry_after",
    "outcome",
    "retryable",
    "token_refused",
    "used",
)


def find_refusal(intent: IntentRow) -> ApiError | None:
    """Rebuild the stored refusal of a send."""
    if not intent["refusal"]:
        return None
    error = ApiError(**json.loads(intent["refusal"]))
    error.outcome = Outcome(error.outcome) if error.outcome else None
    return error


def _update(tx: Tx, intent: IntentRow, **columns: Unpack[IntentChange]) -> IntentRow:
    Intent.update(**columns).where(Intent.id == intent["id"], Intent.outcome.is_null()).execute()
    return {**intent, **columns}


def close(service: AppContext, tx: Tx, intent: IntentRow, outcome: str, published: Published | None = None) -> None:
    """Settle an open intent, binding `published`. Raises RemotePostTakenError."""
    row = published and json.dumps(_encode_published(published))
    remote = published and hash_remote_id(published.remote_id)
    with _check_not_taken():
        sql.execute(publish_runs.RECORD_OUTCOME, (outcome, service.now_ms, remote, row, intent["id"]))


def close_published(service: AppContext, tx: Tx, settled: Sequence[tuple[IntentRow, Published]]) -> None:
    """Settle intents whose posts are published in this transaction, dropping plan and result.

    The post rows hold the texts and the outcome.
    """
    rows = [(intent["id"], hash_remote_id(published.remote_id)) for intent, published in settled]
    with _check_not_taken():
        sql.update_all(publish_runs.RECORD_PUBLISHED, rows, (service.now_ms,))


@contextlib.contextmanager
def _check_not_taken() -> Iterator[None]:
    """Raise RemotePostTakenError if a remote post is already bound."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise RemotePostTakenError(str(error)) from error


def hash_remote_id(remote_id: str) -> int:
    """Hash a remote id to 64 bits, for recognition only; the post's row has the address.

    A collision within one account is negligible: with a million posts, once in 30 million accounts.
    """
    return int.from_bytes(hashlib.sha256(remote_id.encode()).digest()[:8], "big", signed=True)


def is_bound(intent: IntentRow, remote_id: str) -> bool:
    """Return whether the remote post belongs to another post of the account."""
    return (
        sql.fetch_one(publish_runs.IS_REMOTE_BOUND, (intent["account"], hash_remote_id(remote_id), intent["id"]))
        is not None
    )


def _encode_published(published: Published) -> dict[str, Any]:
    return {
        "remote_id": published.remote_id,
        "uri": published.uri,
        "cid": published.cid,
        "url": published.url,
        "warnings": [build_warning_body(warning) for warning in published.warnings],
    }


def decode_published(intent: IntentRow) -> Published:
    assert intent["result"] is not None, "what was published is kept with the outcome"
    row = json.loads(intent["result"])
    return Published(**(row | {"warnings": tuple(PublishWarning(**warning) for warning in row["warnings"])}))


def encode_capped(value: Any, most: int = RESPONSE_MAX) -> str:
    """Encode a raw upstream response as JSON of at most `most` bytes (16 KiB)."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text.encode("utf-8", "replace")) <= most:
        return text
    return json.dumps({"truncated": text[: most // 4]}, ensure_ascii=False)


def add_warnings(tx: Tx, post: str, warnings: Sequence[PublishWarning]) -> None:
    if not warnings:
        return
    stored = json.loads(sql.fetch_value(publish_runs.FIND_WARNINGS, (post,)))
    merged = remove_duplicates((*(PublishWarning(**body) for body in stored), *warnings))
    bodies = [build_warning_body(warning) for warning in merged]
    if bodies != stored:
        sql.execute(publish_runs.SET_WARNINGS, (json.dumps(bodies, ensure_ascii=False), post))
