"""Publishing of one target: claim, prepare, record the intent, send, settle.

Promise: an accepted post is published once, or its owner learns exactly what is known. So the intent is durable before
the one public call; every response is classified by the platform's table, and unlisted ones are ambiguous; ambiguous
sends are settled by lookup; and a plan is sent again only where its `SendClass` makes that harmless, after a lookup
found nothing. `decide` has the decisions; this module executes the steps, in I/O threads without database connections.
A plan made without network is recorded with the claim, which saves a step; never while the post may still wait, since
a crash meanwhile would make it look sent.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, assert_never

from socialpub.base import fault_injection
from socialpub.base.concurrency.fair_executor import current_share_key
from socialpub.base.error_codes import ERRORS
from socialpub.base.errors import ApiError
from socialpub.base.observability import tracing
from socialpub.base.service_rules import SERVICE_RULES
from socialpub.domain.accounts import accounts
from socialpub.domain.accounts.connector_session import ConnectorSession, StorageError
from socialpub.domain.context import storage_errors
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.publishing import (
    intents,
    lookup_schedule,
    media_download,
    offline_plan,
    transactions,
    unknown_outcomes,
)
from socialpub.domain.publishing.decide import (
    AmbiguityRecorded,
    BindRemotePost,
    CompareEarlierSends,
    EarlierSendsCompared,
    FailAbsent,
    FailDuplicate,
    FailRefused,
    FailUnknown,
    LookupAnswered,
    LookUpRemotePost,
    PollRemotePost,
    RecordAmbiguity,
    ResendPlan,
    RetryLookup,
    RunFinding,
    RunResumed,
    SendAnswered,
    WaitUntil,
    decide,
)
from socialpub.domain.publishing.intents import LostClaimError, RemotePostTakenError, RunSnapshot
from socialpub.platforms.contract import Absent, Draft, Pending, Published, PublishWarning, Ready, Unknown
from socialpub.platforms.kit.rule_catalog import build_warning, find_violations
from socialpub.store.database import DbFuture, Tx
from socialpub.store.engine import sql
from socialpub.store.jobs.leases import Claim
from socialpub.store.rows import IntentRow, PostRow

log = logging.getLogger("socialpub.publish")

T = TypeVar("T")
WRITE_RETRY_WAITS = (0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class RunResult:
    """Result of a run. `sent`: a public call was made. `is_over`: nothing is left to write."""

    sent: bool = False
    is_over: bool = True


def claim_together(tx: Tx, asked: Sequence[tuple[AppContext, Claim]]) -> list[RunSnapshot | None]:
    """Claim posts with shared statements."""
    return claim_posts(asked[0][0], tx, [claim for _, claim in asked])


def execute(
    service: AppContext, fetched: library.BatchMediaCache, snapshot: RunSnapshot, over: Callable[[], None] | None = None
) -> RunResult:
    """Execute a claimed post, after the commit of the claim.

    `over`: called in any thread after the last write, for callers that do not wait for it; must be quick and not raise.
    """
    if not snapshot.intended:
        fault_injection.hit("pub.after_claim")
    this = _PublishRun(service, fetched, snapshot, over)
    this.watched(this.go)
    return RunResult(this.sent, is_over=not this.is_left)


def claim_posts(
    service: AppContext, tx: Tx, claims: Sequence[Claim], begun: Mapping[str, transactions.InsertedPost] | None = None
) -> list[RunSnapshot | None]:
    """Claim posts; record their plans at once where known. `begun`: inserted as claimed here."""
    taken = (
        transactions.claim_posts(service, tx, claims)
        if begun is None
        else transactions.claim_inserted(service, tx, claims, begun)
    )
    planned = [(one, plan) for one in taken if one and (plan := _plan_offline(service, one))]
    intended = intents.record_all(service, tx, [(one, plan.plan, plan.warnings) for one, plan in planned])
    ready = {
        one.claim.key: replace(one, intended=intent, warned=bool(plan.warnings))
        for (one, plan), intent in zip(planned, intended, strict=True)
    }
    return [one and ready.get(one.claim.key, one) for one in taken]


def _plan_offline(service: AppContext, snapshot: RunSnapshot) -> Ready | None:
    return None if transactions.find_refusal(snapshot.account) else offline_plan.plan_offline(service, snapshot)


generate_nonce = transactions.generate_nonce


def _trace_attributes(snapshot: RunSnapshot) -> dict[str, tracing.AttributeValue]:
    """Build the trace attributes of an attempt."""
    post = snapshot.post
    return {
        "socialpub.post": post["id"],
        "socialpub.platform": post["platform"],
        "socialpub.account": post["account"],
        "socialpub.attempt": snapshot.attempt,
        "socialpub.request": snapshot.request_id,
    }


@dataclass
class _PublishRun:
    """Run of one post. Methods are steps; each ends in a transaction of `transactions`."""

    service: AppContext
    fetched: library.BatchMediaCache
    snapshot: RunSnapshot
    over: Callable[[], None] | None = None
    warnings: tuple[PublishWarning, ...] = ()
    sent: bool = False  # a public call was made
    is_left: bool = False  # its thread has ended: `over` is called once the result is written
    up: ConnectorSession = field(init=False)

    def __post_init__(self) -> None:
        self.up = ConnectorSession(self.service, self.snapshot.account, just_seen=self.snapshot.intended is not None)

    def watched(self, go: Callable[[], None]) -> None:
        """Run steps; any error is recorded or logged."""
        try:
            with tracing.trace_attempt(self.snapshot.request_id, _trace_attributes(self.snapshot)):
                self._caught(go)
        except LostClaimError:
            log.warning("post %s was taken over by another run", self.snapshot.claim.key)
        except StorageError as error:
            log.error("post %s: its state could not be written: %s", self.snapshot.claim.key, error)

    def go(self) -> None:
        """Continue from the state in the rows."""
        if self.snapshot.intended:
            _hit_fault(self.snapshot.intended, "after_intent")
            self._send(self.snapshot.intended)
        elif self.snapshot.open_intent:
            self._step(self.snapshot.open_intent, RunResumed(self.up.is_revoked()))
        elif self.snapshot.published:
            self._comment(self.snapshot.published)
        else:
            self._publish()

    def _elsewhere(self, go: Callable[[], None]) -> None:
        """Continue in another thread, which calls `over` at the end."""
        over, self.over, self.is_left = self.over, None, True
        assert over is not None, "a run that continues in other threads needs a callback for its end"
        try:
            self.service.executors.crew.run(functools.partial(self._through, go, over))
        except RuntimeError:  # no thread available: the lease expires, and the send is looked up
            log.exception(
                "post %s: no thread is free for the steps after its send; it resumes when its lease expires",
                self.post["id"],
            )
            over()

    def _through(self, go: Callable[[], None], over: Callable[[], None]) -> None:
        current_share_key.set(self.snapshot.claim.share)
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
            if isinstance(error, OSError) and error.filename:  # one of our files is unreadable
                self._wait_for_storage(storage_errors.build_error(error))
            log.exception("post %s: a bug in publishing", self.post["id"])
            self._stopped(ApiError("internal_error"))

    def _wait_for_storage(self, error: ApiError) -> None:
        """Raise StorageError if a scheduled post can wait for its files; an immediate one fails."""
        if error.rule == "storage.unavailable" and self.post["scheduled_at"] is not None:
            raise StorageError(error.message) from error

    def _stopped(self, error: ApiError) -> None:
        """Handle a stopped run: fail what was not sent, look up what may have been."""
        post, attempt = self.post["id"], self.snapshot.attempt
        intent, published = self.service.read(
            lambda: (intents.find_open(post), intents.find_published(post, attempt))
        ).result()
        if published:
            self.snapshot = replace(self.snapshot, published=published)
        if intent is None:
            self._fail(error)
        else:
            self._step(intent, LookupAnswered(Unknown({"error": error.message})))

    # --- The steps ---

    def _publish(self) -> None:
        coming = media_download.start_downloads(
            self.service, self.fetched, self.snapshot, offline_plan.build_draft(self.post)
        )
        if coming:
            self._write(
                lambda tx: transactions.postpone(self.service, tx, self.snapshot, media_download.FALLBACK_SECONDS)
            )
            media_download.wake_after(self.service, coming, self.post["id"])
            return
        draft = self._draft()
        fault_injection.hit("pub.after_media")
        saved = json.loads(self.post["saved"]) if self.post["saved"] else None
        prepared = self.up.call(lambda up: self.up.connector.prepare(up, draft, saved))
        if isinstance(prepared, Pending):
            fault_injection.hit("cont.after_create_before_save")
            self._write(lambda tx: transactions.save_progress(self.service, tx, self.snapshot, prepared))
            return
        self._send(self._intend("publish", prepared.plan, (*self.warnings, *prepared.warnings)))

    def _draft(self) -> Draft:
        """Build the frozen content with media, and check the deep rules."""
        post = self.post
        items = library.build_items(
            self.service, self.fetched, post["batch"], post["platform"], post["media"], self.snapshot.assets
        )
        draft = replace(offline_plan.build_draft(self.post), items=items)
        pictures = library.measure_option_images(self.fetched, post["batch"], post["platform"], draft)
        draft = replace(draft, option_facts=pictures)
        who, around = (
            accounts.build_connector_account(self.snapshot.account),
            offline_plan.build_surroundings(self.service),
        )
        found = find_violations(self.up.platform, self.up.site, draft, who, around, ("deep",))
        if found.errors:
            raise found.errors[0].error(self.up.platform.pinned(self.up.site))
        self.warnings = found.warnings
        return draft

    def _intend(self, step: str, plan: dict[str, Any], warnings: Sequence[PublishWarning] = ()) -> IntentRow:
        intent = self._write(
            lambda tx: transactions.record_intent(self.service, tx, self.snapshot, step, plan, warnings)
        )
        if isinstance(intent, ApiError):
            raise intent
        self.snapshot = replace(self.snapshot, warned=self.snapshot.warned or bool(warnings))
        _hit_fault(intent, "after_intent")
        return intent

    def _send(self, intent: IntentRow, *, earlier_over: bool = True) -> None:
        """Make the public call and handle its response."""
        self._answered(intent, self._answer(intent), earlier_over=earlier_over)

    def _answer(self, intent: IntentRow) -> Published | Pending | ApiError:
        """Make the public call; return its response or error."""
        self.sent = True
        bound = intents.BoundRemoteIds(self.service, intent)
        try:
            return self.up.call(lambda up: self.up.connector.send(up, sql.load_json(intent["plan"])), bound=bound)
        except ApiError as error:
            return error

    def _answered(
        self, intent: IntentRow, answer: Published | Pending | ApiError, *, earlier_over: bool = True
    ) -> None:
        _hit_fault(intent, "after_reply")
        self._step(intent, SendAnswered(answer, earlier_over))

    def _comment(self, published: Published) -> None:
        """Send the first comment with its own intent; the post is never sent again for it."""
        connector: Any = self.up.connector
        draft = offline_plan.build_draft(self.post)
        try:
            plan = self.up.call(lambda up: connector.comment(up, draft, published, self.snapshot.plan))
        except ApiError as error:
            self._uncommented(None, error)
            return
        self._send(self._intend("comment", plan))

    # --- The steps of `decide` ---

    def _step(self, intent: IntentRow, finding: RunFinding) -> None:
        """Execute the step for a finding, and those that follow from it."""
        class_ = self.up.platform.class_of(sql.load_json(intent["plan"]))
        checks = lookup_schedule.compute_times(
            class_, intent["step"], self.service.runtime.settings.publishing.settle_horizon
        )
        step = decide(finding, class_, checks, intent, self.service.now_ms)
        match step:
            case BindRemotePost():
                self._bind(intent, step)
            case PollRemotePost():
                self._follow(intent, step.found)
            case CompareEarlierSends():
                earlier = self.service.read(lambda: intents.load_earlier(intent)).result()
                self._step(intent, EarlierSendsCompared(step.error, [self._look(each) for each in earlier]))
            case RecordAmbiguity():
                doubted = self._doubt(intent, step)
                self._step(doubted, AmbiguityRecorded(self.up.is_revoked()))
            case WaitUntil():
                self._write(lambda tx: self.service.jobs.again(tx, self.snapshot.claim, step.at))
            case LookUpRemotePost():
                found = self._look(intent)
                self._step(intent, LookupAnswered(found, self.up.is_revoked()))  # the lookup may have revealed it
            case RetryLookup():
                seen = step.found.evidence
                self._record(lambda tx: intents.record_lookup(self.service, tx, self.snapshot, intent, seen, step.at))
            case ResendPlan():
                again = self._write(lambda tx: self._looked_and_again(tx, intent, step.found))
                self._send(again, earlier_over=intent["answered"])
            case FailRefused():
                self._end(intent, step.error, str(step.error.outcome))
            case FailAbsent():
                error = unknown_outcomes.build_absent_error(self.up.platform)
                error.retryable = step.retryable
                self._end(intent, error, "absent")
            case FailUnknown():
                told = unknown_outcomes.build_unknown_error(self.snapshot, self.up.platform, intent, step.found)
                self._end(intent, told, "unknown")
            case FailDuplicate():
                self._end(
                    intent,
                    unknown_outcomes.build_duplicate_error(self.snapshot, self.up.platform, step.error),
                    "unknown",
                )
            case _:
                assert_never(step)

    def _bind(self, intent: IntentRow, step: BindRemotePost) -> None:
        """Record the remote post, as reported or found."""
        try:
            self._record_found(intent, step.found, step.by_content)
        except RemotePostTakenError:
            log.warning("post %s: what was found belongs to another post", self.post["id"])
            found = {"found": step.found.uri or step.found.remote_id, "bound": True}
            self._step(intent, LookupAnswered(Unknown(found)))

    def _record_found(self, intent: IntentRow, published: Published, by_content: bool) -> None:
        _hit_fault(intent, "before_result")
        if intent["step"] == "comment":
            post = self.snapshot.published
            assert post is not None, "a comment follows a published post"
            self._record(
                lambda tx: transactions.publish_with_comment(self.service, tx, self.snapshot, intent, post, published)
            )
            _hit_fault(intent, "after_result")
            return
        last = not (self.post["first_comment"] and hasattr(self.up.connector, "comment"))
        answered = transactions.SuccessfulSend(self.service, self.snapshot, intent, published)
        if last and not by_content:
            self._record_sent(answered)
            return
        self._record(lambda tx: self._write_sent(tx, answered, last, by_content))
        _hit_fault(intent, "after_result")
        if not last:
            plan = json.loads(intent["plan"])
            self.snapshot = replace(self.snapshot, published=published, plan=plan, open_intent=None)
            self._comment(published)

    def _record_sent(self, answered: transactions.SuccessfulSend) -> None:
        """Record the end of most posts. With `over`, only a failed write occupies a thread."""
        if self.over is None:
            self._record_by(lambda: self.service.write_together(transactions.publish_sent, answered))
            _hit_fault(answered.intent, "after_result")
            return
        answered = replace(answered, over=self.over)
        sent = self.service.write_together(transactions.publish_sent, answered)
        self.over, self.is_left = None, True
        sent.add_done_callback(functools.partial(self._sent_is_over, answered))

    def _sent_is_over(self, answered: transactions.SuccessfulSend, sent: Future[None]) -> None:
        """Finish in the writer thread: the result is written, or must be written again."""
        if sent.exception() is None:
            _hit_fault(answered.intent, "after_result")
            return
        self.over = answered.over  # nothing of the result was written
        self._elsewhere(lambda: self._bind(answered.intent, BindRemotePost(answered.published)))

    def _write_sent(self, tx: Tx, answered: transactions.SuccessfulSend, last: bool, by_content: bool) -> None:
        if by_content:
            intents.check_same_plan(answered.intent)
        if last:
            transactions.publish_sent(tx, [answered])
        else:
            transactions.record_sent(self.service, tx, self.snapshot, answered.intent, answered.published)

    def _follow(self, intent: IntentRow, found: Pending) -> None:
        """Store the progress with the send's end: from now on it is polled, never sent again."""
        _hit_fault(intent, "before_result")
        self._record(lambda tx: transactions.save_progress(self.service, tx, self.snapshot, found, intent))
        _hit_fault(intent, "after_result")

    def _doubt(self, intent: IntentRow, step: RecordAmbiguity) -> IntentRow:
        error = step.error
        log.warning("post %s: the answer to its send is unclear: %s", self.post["id"], error.message)
        if not step.kept:
            return intent
        error.platform_response = self.up.scrubbed(error.platform_response)
        over, refused = step.over, step.refused
        return self._record(
            lambda tx: intents.record_ambiguity(
                self.service, tx, self.snapshot, intent, error, over=over, refused=refused
            )
        )

    def _look(self, intent: IntentRow) -> Published | Pending | Absent | Unknown:
        """Look up an intent's sends. Finding is proof; not finding is not, before its time."""
        bound, plan, since = (
            intents.BoundRemoteIds(self.service, intent),
            json.loads(intent["plan"]),
            intent["intent_at"],
        )
        try:
            return self.up.call(lambda up: self.up.connector.settle(up, plan, since), looking=True, bound=bound)
        except ApiError as error:
            return Unknown({"error": error.message, "answer": self.up.scrubbed(error.platform_response)})

    def _looked_and_again(self, tx: Tx, intent: IntentRow, found: Absent) -> IntentRow:
        seen = intents.record_lookup(self.service, tx, self.snapshot, intent, found.evidence, None)
        return intents.record_resend(self.service, tx, self.snapshot, seen)

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
        # Separately: of a long response only the beginning is stored.
        error.platform_response = self.up.scrubbed(error.platform_response)
        error.message = self.up.scrubbed(error.message)
        if error.token_refused and error.code == "platform_auth_failed" and error.rule is None:
            error.rule = "account.reconnect_required"
            if error.remediation == ERRORS[error.code].remediation:  # the platform's own advice is better
                error.remediation = SERVICE_RULES[error.rule].remediation
        fault_injection.hit("pub.before_result")
        self._record(lambda tx: transactions.record_failure(self.service, tx, self.snapshot, error, intent, outcome))
        fault_injection.hit("pub.after_result")

    def _uncommented(self, intent: IntentRow | None, error: ApiError, outcome: str = "") -> None:
        published = self.snapshot.published
        assert published is not None, "a comment follows a published post"
        note = build_warning("first_comment_failed", error.message)
        self._record(
            lambda tx: transactions.publish_without_comment(
                self.service, tx, self.snapshot, intent, published, note, outcome
            )
        )

    # --- Writing ---

    @property
    def post(self) -> PostRow:
        return self.snapshot.post

    def _write(self, run: Callable[[Tx], T]) -> T:
        return _await_write(lambda: self.service.write(run))

    def _record(self, run: Callable[[Tx], T]) -> T:
        return self._record_by(lambda: self.service.write(run))

    def _record_by(self, ask: Callable[[], DbFuture[T]]) -> T:
        """Write a result, known only here, as often as it takes while the process lives."""
        for number in range(10_000):
            try:
                return _await_write(ask)
            except StorageError:
                wait = WRITE_RETRY_WAITS[min(number, len(WRITE_RETRY_WAITS) - 1)]
                if self.service.db.fenced.is_set() or self.service.process.stopping.wait(wait):
                    raise
        raise StorageError("the result could not be written for hours")


def _await_write(ask: Callable[[], DbFuture[T]]) -> T:
    try:
        return ask().result()
    except ApiError as error:
        # Not an error of the platform: the lease expires, and the rows tell how to resume.
        raise StorageError(error.message) from error


def _hit_fault(intent: IntentRow, point: str) -> None:
    fault_injection.hit(f"{'comment' if intent['step'] == 'comment' else 'pub'}.{point}")
