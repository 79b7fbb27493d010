"""Publishing one target: claim, prepare, intend, send, settle. Nothing else in the program publishes.

The promise: an accepted post is published once, or its owner is told exactly what is known. So the intent is durable
before the one public call; every answer is sorted by the platform's table, and what is not in it is ambiguous; an
ambiguous send is settled by looking; and the same plan is only sent again where the platform makes that harmless
(its `SendClass`), after looking found nothing. What follows from which answer is the table in `decide`; here are the
steps. All of it runs in I/O threads that hold no database connection.

What is planned without asking anybody is written down with the claim, so such a post is never claimed and not yet
intended; never while it may still have to wait: a crash meanwhile would leave it looking as if it had been sent.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, assert_never

from socialpub.base import faults, tracing
from socialpub.base.error_codes import ERRORS
from socialpub.base.errors import ApiError
from socialpub.base.fair import working_for
from socialpub.base.service_rules import SERVICE_RULES
from socialpub.domain.accounts import accounts
from socialpub.domain.accounts.calling import Caller, StorageError
from socialpub.domain.core import disk
from socialpub.domain.core.service import Service
from socialpub.domain.media import library
from socialpub.domain.publishing import bringing, horizon, intents, planning, records, unclear
from socialpub.domain.publishing.decide import (
    Bind,
    Compare,
    Compared,
    Doubt,
    Doubted,
    Duplicate,
    Finding,
    Follow,
    Look,
    Looked,
    LookLater,
    NotSeen,
    NotThere,
    Refused,
    Resend,
    Resumed,
    Sent,
    Wait,
    decide,
)
from socialpub.domain.publishing.intents import LostClaimError, Snapshot, TakenError
from socialpub.platforms.contract import Absent, Draft, Pending, Published, Ready, Unknown, Warning
from socialpub.platforms.kit.rules import findings, warning
from socialpub.store import sql
from socialpub.store.db import DbFuture, Tx
from socialpub.store.queue import Claim
from socialpub.store.rows import IntentRow, PostRow

log = logging.getLogger("socialpub.publish")

T = TypeVar("T")
RECORD_WAITS = (0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Went:
    """What a run came to. `sent`: something public was called. `is_over`: nothing of it is still to be written."""

    sent: bool = False
    is_over: bool = True


def take_together(tx: Tx, asked: Sequence[tuple[Service, Claim]]) -> list[Snapshot | None]:
    """Take posts to work on, with the same statements."""
    return take(asked[0][0], tx, [claim for _, claim in asked])


def go_on(
    service: Service, fetched: library.Fetched, snapshot: Snapshot, over: Callable[[], None] | None = None
) -> Went:
    """The same with what was taken, once that is committed.

    `over`: whoever gives it needs nothing after the last that is written, and does not wait for that. It is called
    then, in whatever thread; it must be short and must not raise.
    """
    if not snapshot.intended:
        faults.hit("pub.after_claim")
    this = _Run(service, fetched, snapshot, over)
    this.watched(this.go)
    return Went(this.sent, is_over=not this.is_left)


def take(
    service: Service, tx: Tx, claims: Sequence[Claim], begun: Mapping[str, records.Inserted] | None = None
) -> list[Snapshot | None]:
    """Take posts to work on; what is about to be sent is written down at once, where that is known without asking.

    `begun`: where this transaction has inserted them as claimed.
    """
    taken = records.take(service, tx, claims) if begun is None else records.begin(service, tx, claims, begun)
    planned = [(one, plan) for one in taken if one and (plan := _plan(service, one))]
    intended = intents.intend_all(service, tx, [(one, plan.plan, plan.warnings) for one, plan in planned])
    ready = {
        one.claim.key: replace(one, intended=intent, warned=bool(plan.warnings))
        for (one, plan), intent in zip(planned, intended, strict=True)
    }
    return [one and ready.get(one.claim.key, one) for one in taken]


def _plan(service: Service, snapshot: Snapshot) -> Ready | None:
    return None if records.refusal(snapshot.account) else planning.at_once(service, snapshot)


new_nonce = records.new_nonce


def _about(snapshot: Snapshot) -> dict[str, tracing.Value]:
    """What a trace says of an attempt."""
    post = snapshot.post
    return {
        "socialpub.post": post["id"],
        "socialpub.platform": post["platform"],
        "socialpub.account": post["account"],
        "socialpub.attempt": snapshot.attempt,
        "socialpub.request": snapshot.request_id,
    }


@dataclass
class _Run:
    """One run over one post. Methods are the steps; each ends in a transaction of `records`."""

    service: Service
    fetched: library.Fetched
    snapshot: Snapshot
    over: Callable[[], None] | None = None
    warnings: tuple[Warning, ...] = ()
    sent: bool = False  # something public was called
    is_left: bool = False  # its thread has gone: `over` is called once the result is written
    up: Caller = field(init=False)

    def __post_init__(self) -> None:
        self.up = Caller(self.service, self.snapshot.account, just_seen=self.snapshot.intended is not None)

    def watched(self, go: Callable[[], None]) -> None:
        """Go some steps: whatever happens is written down, or in the log."""
        try:
            with tracing.attempt(self.snapshot.request_id, _about(self.snapshot)):
                self._caught(go)
        except LostClaimError:
            log.warning("post %s was taken over by another run", self.snapshot.claim.key)
        except StorageError as error:
            log.error("post %s: its state could not be written: %s", self.snapshot.claim.key, error)

    def go(self) -> None:
        """From wherever the rows say it is."""
        if self.snapshot.intended:
            _hit(self.snapshot.intended, "after_intent")
            self._send(self.snapshot.intended)
        elif self.snapshot.open_intent:
            self._step(self.snapshot.open_intent, Resumed(self.up.is_revoked()))
        elif self.snapshot.published:
            self._comment(self.snapshot.published)
        else:
            self._publish()

    def _elsewhere(self, go: Callable[[], None]) -> None:
        """Go on with some steps in another thread, which calls `over` at the end."""
        over, self.over, self.is_left = self.over, None, True
        assert over is not None, "whoever leaves it to other threads has nothing to do after them"
        try:
            self.service.crew.run(functools.partial(self._through, go, over))
        except RuntimeError:  # no thread to be had: the lease runs out, and the send is looked for
            log.exception("post %s: what follows its send could not be done", self.post["id"])
            over()

    def _through(self, go: Callable[[], None], over: Callable[[], None]) -> None:
        working_for.set(self.snapshot.claim.share)
        try:
            self.watched(go)
        finally:
            over()

    def _caught(self, go: Callable[[], None]) -> None:
        try:
            go()
        except (LostClaimError, StorageError):
            raise
        except ApiError as error:
            self._wait_for_storage(error)
            self._stopped(error)
        except Exception as error:  # noqa: BLE001 - a bug must not lose the post
            if isinstance(error, OSError) and error.filename:  # a file of ours that the disk does not give
                self._wait_for_storage(disk.unusable(error))
            log.exception("post %s: a bug in publishing", self.post["id"])
            self._stopped(ApiError("internal_error"))

    def _wait_for_storage(self, error: ApiError) -> None:
        """StorageError where a scheduled post can wait for its files; who waits for an immediate one is told."""
        if error.rule == "storage.unavailable" and self.post["scheduled_at"] is not None:
            raise StorageError(error.message) from error

    def _stopped(self, error: ApiError) -> None:
        """The run cannot go on: what was not sent fails, what may have been sent is looked for."""
        post, attempt = self.post["id"], self.snapshot.attempt
        intent, published = self.service.read(lambda: (intents.open_intent(post), intents.done(post, attempt))).result()
        if published:
            self.snapshot = replace(self.snapshot, published=published)
        if intent is None:
            self._fail(error)
        else:
            self._step(intent, Looked(Unknown({"error": error.message})))

    # --- The steps ---

    def _publish(self) -> None:
        coming = bringing.begun(self.service, self.fetched, self.snapshot, planning.bare_draft(self.post))
        if coming:
            self._write(lambda tx: records.later(self.service, tx, self.snapshot, bringing.AGAIN))
            bringing.ring_after(self.service, coming, self.post["id"])
            return
        draft = self._draft()
        faults.hit("pub.after_media")
        saved = json.loads(self.post["saved"]) if self.post["saved"] else None
        prepared = self.up.call(lambda up: self.up.connector.prepare(up, draft, saved))
        if isinstance(prepared, Pending):
            faults.hit("cont.after_create_before_save")
            self._write(lambda tx: records.pending(self.service, tx, self.snapshot, prepared))
            return
        self._send(self._intend("publish", prepared.plan, (*self.warnings, *prepared.warnings)))

    def _draft(self) -> Draft:
        """The frozen content with its bytes; deep rules are checked here."""
        post = self.post
        items = library.with_bytes(
            self.service, self.fetched, post["batch"], post["platform"], post["media"], self.snapshot.assets
        )
        draft = replace(planning.bare_draft(self.post), items=items)
        pictures = library.option_facts(self.fetched, post["batch"], post["platform"], draft)
        draft = replace(draft, option_facts=pictures)
        who, around = accounts.who(self.snapshot.account), planning.surroundings(self.service)
        found = findings(self.up.platform, self.up.site, draft, who, around, ("deep",))
        if found.errors:
            raise found.errors[0].error(self.up.platform.pinned(self.up.site))
        self.warnings = found.warnings
        return draft

    def _intend(self, step: str, plan: dict[str, Any], warnings: Sequence[Warning] = ()) -> IntentRow:
        intent = self._write(lambda tx: records.intend(self.service, tx, self.snapshot, step, plan, warnings))
        if isinstance(intent, ApiError):
            raise intent
        self.snapshot = replace(self.snapshot, warned=self.snapshot.warned or bool(warnings))
        _hit(intent, "after_intent")
        return intent

    def _send(self, intent: IntentRow, *, earlier_over: bool = True) -> None:
        """The one public call, and what follows from its answer."""
        self._answered(intent, self._answer(intent), earlier_over=earlier_over)

    def _answer(self, intent: IntentRow) -> Published | Pending | ApiError:
        """What the platform says to the one public call."""
        self.sent = True
        bound = intents.Bound(self.service, intent)
        try:
            return self.up.call(lambda up: self.up.connector.send(up, sql.loads(intent["plan"])), bound=bound)
        except ApiError as error:
            return error

    def _answered(
        self, intent: IntentRow, answer: Published | Pending | ApiError, *, earlier_over: bool = True
    ) -> None:
        _hit(intent, "after_reply")
        self._step(intent, Sent(answer, earlier_over))

    def _comment(self, published: Published) -> None:
        """The first comment: its own intent; the main post is never sent again for it."""
        connector: Any = self.up.connector
        draft = planning.bare_draft(self.post)
        try:
            plan = self.up.call(lambda up: connector.comment(up, draft, published, self.snapshot.plan))
        except ApiError as error:
            self._uncommented(None, error)
            return
        self._send(self._intend("comment", plan))

    # --- The steps that `decide` knows ---

    def _step(self, intent: IntentRow, finding: Finding) -> None:
        """Take the step that follows from a finding; most lead to another finding and its step."""
        class_ = self.up.platform.class_of(sql.loads(intent["plan"]))
        checks = horizon.checks_of(class_, intent["step"], self.service.runtime.settings.publishing.settle_horizon)
        step = decide(finding, class_, checks, intent, self.service.now_ms)
        match step:
            case Bind():
                self._bind(intent, step)
            case Follow():
                self._follow(intent, step.found)
            case Compare():
                earlier = self.service.read(lambda: intents.earlier(intent)).result()
                self._step(intent, Compared(step.error, [self._look(each) for each in earlier]))
            case Doubt():
                doubted = self._doubt(intent, step)
                self._step(doubted, Doubted(self.up.is_revoked()))
            case Wait():
                self._write(lambda tx: self.service.jobs.again(tx, self.snapshot.claim, step.at))
            case Look():
                found = self._look(intent)
                self._step(intent, Looked(found, self.up.is_revoked()))  # which looking may have told
            case LookLater():
                seen = step.found.evidence
                self._record(lambda tx: intents.looked(self.service, tx, self.snapshot, intent, seen, step.at))
            case Resend():
                again = self._write(lambda tx: self._looked_and_again(tx, intent, step.found))
                self._send(again, earlier_over=intent["answered"])
            case Refused():
                self._end(intent, step.error, str(step.error.outcome))
            case NotThere():
                error = unclear.not_there(self.up.platform)
                error.retryable = step.retryable
                self._end(intent, error, "absent")
            case NotSeen():
                told = unclear.not_seen(self.snapshot, self.up.platform, intent, step.found)
                self._end(intent, told, "unknown")
            case Duplicate():
                self._end(intent, unclear.is_duplicate(self.snapshot, self.up.platform, step.error), "unknown")
            case _:
                assert_never(step)

    def _bind(self, intent: IntentRow, step: Bind) -> None:
        """The platform has it, by its own word or because it was found there."""
        try:
            self._record_found(intent, step.found, step.by_content)
        except TakenError:
            log.warning("post %s: what was found belongs to another post", self.post["id"])
            found = {"found": step.found.uri or step.found.remote_id, "bound": True}
            self._step(intent, Looked(Unknown(found)))

    def _record_found(self, intent: IntentRow, published: Published, by_content: bool) -> None:
        _hit(intent, "before_result")
        if intent["step"] == "comment":
            post = self.snapshot.published
            assert post is not None, "a comment follows a published post"
            self._record(lambda tx: records.commented(self.service, tx, self.snapshot, intent, post, published))
            _hit(intent, "after_result")
            return
        last = not (self.post["first_comment"] and hasattr(self.up.connector, "comment"))
        answered = records.Answered(self.service, self.snapshot, intent, published)
        if last and not by_content:
            self._record_sent(answered)
            return
        self._record(lambda tx: self._write_sent(tx, answered, last, by_content))
        _hit(intent, "after_result")
        if not last:
            plan = json.loads(intent["plan"])
            self.snapshot = replace(self.snapshot, published=published, plan=plan, open_intent=None)
            self._comment(published)

    def _record_sent(self, answered: records.Answered) -> None:
        """The end of most posts. Where `over` is to be called after it, no thread waits for the disk: only what could
        not be written is waited for, by another one.
        """
        if self.over is None:
            self._record_by(lambda: self.service.write_together(records.sent, answered))
            _hit(answered.intent, "after_result")
            return
        answered = replace(answered, over=self.over)
        sent = self.service.write_together(records.sent, answered)
        self.over, self.is_left = None, True
        sent.add_done_callback(functools.partial(self._sent_is_over, answered))

    def _sent_is_over(self, answered: records.Answered, sent: Future[None]) -> None:
        """In the thread that writes: the result is written, or has to be once more."""
        if sent.exception() is None:
            _hit(answered.intent, "after_result")
            return
        self.over = answered.over  # nothing of the result was written, for whatever reason
        self._elsewhere(lambda: self._bind(answered.intent, Bind(answered.published)))

    def _write_sent(self, tx: Tx, answered: records.Answered, last: bool, by_content: bool) -> None:
        if by_content:
            intents.check_twins(answered.intent)
        if last:
            records.sent(tx, [answered])
        else:
            records.sent_first(self.service, tx, self.snapshot, answered.intent, answered.published)

    def _follow(self, intent: IntentRow, found: Pending) -> None:
        """What the platform named is kept with the send's end: from here on it is asked about, never sent again."""
        _hit(intent, "before_result")
        self._record(lambda tx: records.pending(self.service, tx, self.snapshot, found, intent))
        _hit(intent, "after_result")

    def _doubt(self, intent: IntentRow, step: Doubt) -> IntentRow:
        error = step.error
        log.warning("post %s: the answer to its send is unclear: %s", self.post["id"], error.message)
        if not step.kept:
            return intent
        error.platform_response = self.up.scrubbed(error.platform_response)
        over, refused = step.over, step.refused
        return self._record(
            lambda tx: intents.doubted(self.service, tx, self.snapshot, intent, error, over=over, refused=refused)
        )

    def _look(self, intent: IntentRow) -> Published | Pending | Absent | Unknown:
        """What the sends of an intent may have done. Finding is proof; not finding is not, until it is time."""
        bound, plan, since = intents.Bound(self.service, intent), json.loads(intent["plan"]), intent["intent_at"]
        try:
            return self.up.call(lambda up: self.up.connector.settle(up, plan, since), looking=True, bound=bound)
        except ApiError as error:
            return Unknown({"error": error.message, "answer": self.up.scrubbed(error.platform_response)})

    def _looked_and_again(self, tx: Tx, intent: IntentRow, found: Absent) -> IntentRow:
        seen = intents.looked(self.service, tx, self.snapshot, intent, found.evidence, None)
        return intents.intend_again(self.service, tx, self.snapshot, seen)

    # --- Ends ---

    def _end(self, intent: IntentRow, error: ApiError, outcome: str) -> None:
        if intent["step"] == "comment":
            self._uncommented(intent, error, outcome)
        else:
            self._fail(error, intent, outcome)

    def _fail(self, error: ApiError, intent: IntentRow | None = None, outcome: str = "") -> None:
        if self.snapshot.published:
            self._uncommented(intent, error, outcome)
            return
        error.platform_version = error.platform_version or self.up.platform.pinned(self.up.site) or None
        # Each by itself: of a long response no more than its beginning is kept.
        error.platform_response = self.up.scrubbed(error.platform_response)
        error.message = self.up.scrubbed(error.message)
        if error.token_refused and error.code == "platform_auth_failed" and error.rule is None:
            error.rule = "account.reconnect_required"
            if error.remediation == ERRORS[error.code].remediation:  # the platform's own advice is better
                error.remediation = SERVICE_RULES[error.rule].remediation
        faults.hit("pub.before_result")
        self._record(lambda tx: records.failed(self.service, tx, self.snapshot, error, intent, outcome))
        faults.hit("pub.after_result")

    def _uncommented(self, intent: IntentRow | None, error: ApiError, outcome: str = "") -> None:
        published = self.snapshot.published
        assert published is not None, "a comment follows a published post"
        note = warning("first_comment_failed", error.message)
        self._record(lambda tx: records.uncommented(self.service, tx, self.snapshot, intent, published, note, outcome))

    # --- Writing ---

    @property
    def post(self) -> PostRow:
        return self.snapshot.post

    def _write(self, run: Callable[[Tx], T]) -> T:
        return _written(lambda: self.service.write(run))

    def _record(self, run: Callable[[Tx], T]) -> T:
        return self._record_by(lambda: self.service.write(run))

    def _record_by(self, ask: Callable[[], DbFuture[T]]) -> T:
        """Write what is now known, which nobody else knows: as often as it takes, while this process lives."""
        for number in range(10_000):
            try:
                return _written(ask)
            except StorageError:
                wait = RECORD_WAITS[min(number, len(RECORD_WAITS) - 1)]
                if self.service.db.fenced.is_set() or self.service.stopping.wait(wait):
                    raise
        raise StorageError("the result could not be written for hours")


def _written(ask: Callable[[], DbFuture[T]]) -> T:
    try:
        return ask().result()
    except ApiError as error:
        # Never taken for an answer of the platform: the lease runs out and the rows tell how to go on.
        raise StorageError(error.message) from error


def _hit(intent: IntentRow, point: str) -> None:
    faults.hit(f"{'comment' if intent['step'] == 'comment' else 'pub'}.{point}")
