"""Publishing of one target: claim, prepare, record the intent, send, settle.

Promise: an accepted post is published once, or its owner learns exactly what is known. So the intent is durable before
the one public call; every response is classified by the platform's table, and unlisted ones are ambiguous; ambiguous
sends are settled by lookup; and a plan is sent again only where its `SendClass` makes that harmless, after a lookup
found nothing. `decide` has the decisions; this module executes the steps, in I/O threads without database connections.
A plan made without network is recorded with the claim, which saves a step; never while the post may still wait, since a
crash meanwhile would make it look sent.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, assert_never

from socialpub.base import fault_injection
from socialpub.base.error_codes import ERRORS
from socialpub.base.errors import ApiError
from socialpub.base.observability import tracing
from socialpub.base.service_rules import SERVICE_RULES
from socialpub.domain.accounts.connector_session import ConnectorSession, StorageError
from socialpub.domain.context import storage_errors, upstreams
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


RunDone = Callable[[bool], None]
"""Callback after a run, in any thread; the flag says if a public call was made. Quick, must not raise."""


def claim_together(tx: Tx, claims: Sequence[tuple[AppContext, Claim]]) -> list[RunSnapshot | None]:
    """Claim posts that wait at once, with shared statements (`Database.write_together`)."""
    return claim_posts(claims[0][0], tx, [claim for _, claim in claims])


def execute(service: AppContext, fetched: library.BatchMediaCache, snapshot: RunSnapshot, on_done: RunDone) -> None:
    """Execute a claimed post, after the commit of the claim; call `on_done` once."""
    publish_run = _PublishRun(service, fetched, snapshot, on_done)
    try:
        if not snapshot.intended:
            fault_injection.hit("pub.after_claim")
        publish_run.execute()
    finally:
        if not publish_run.is_done:
            on_done(publish_run.sent)


def claim_posts(
    service: AppContext,
    tx: Tx,
    claims: Sequence[Claim],
    inserted: Mapping[str, transactions.InsertedPost] | None = None,
) -> list[RunSnapshot | None]:
    """Claim posts, and record the sends whose plans need no network.

    `inserted`: posts that this transaction has inserted as claimed.
    """
    snapshots = (
        transactions.claim_posts(service, tx, claims)
        if inserted is None
        else transactions.claim_inserted(service, tx, claims, inserted)
    )
    planned = [(snapshot, plan) for snapshot in snapshots if snapshot and (plan := _plan_offline(service, snapshot))]
    sends = [(snapshot, plan.plan, plan.warnings) for snapshot, plan in planned]
    ready = {
        snapshot.claim.key: replace(snapshot, intended=intent, warned=bool(plan.warnings))
        for (snapshot, plan), intent in zip(planned, intents.record_all(service, tx, sends), strict=True)
    }
    return [snapshot and ready.get(snapshot.claim.key, snapshot) for snapshot in snapshots]


def _plan_offline(service: AppContext, snapshot: RunSnapshot) -> Ready | None:
    return None if transactions.find_account_problem(snapshot.account) else offline_plan.plan_offline(service, snapshot)


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
    on_done: RunDone
    warnings: tuple[PublishWarning, ...] = ()
    sent: bool = False  # a public call was made
    is_done: bool = False  # `on_done` was called, with the commit of the result
    up: ConnectorSession = field(init=False)

    def __post_init__(self) -> None:
        self.up = ConnectorSession(self.service, self.snapshot.account, just_seen=self.snapshot.intended is not None)

    def execute(self) -> None:
        """Run the steps; any error is recorded or logged."""
        try:
            with tracing.trace_attempt(self.snapshot.request_id, _trace_attributes(self.snapshot)):
                self._run_steps()
        except LostClaimError:
            log.warning("post %s was taken over by another run; this run ends", self.snapshot.claim.key)
        except StorageError as error:
            log.error(
                "post %s: this run cannot continue now; it is resumed when its lease expires: %s",
                self.snapshot.claim.key,
                error,
            )

    def _resume(self) -> None:
        """Continue from the state in the rows."""
        if self.snapshot.intended:
            _hit_fault(self.snapshot.intended, "after_intent")
            self._send(self.snapshot.intended)
        elif self.snapshot.open_intent:
            self._execute_step(self.snapshot.open_intent, RunResumed(self.up.is_revoked()))
        elif self.snapshot.published:
            self._comment(self.snapshot.published)
        else:
            self._publish()

    def _run_steps(self) -> None:
        try:
            self._resume()
        except (LostClaimError, StorageError):
            raise
        except ApiError as error:
            self._wait_for_machine(error)
            self._handle_error(error)
        except Exception as error:  # noqa: BLE001 - a bug must not lose the post
            if isinstance(error, OSError) and error.filename:  # one of our files is unreadable
                self._wait_for_machine(storage_errors.build_error(error))
            log.exception(
                "post %s: internal error while publishing; the attempt fails, or its send is looked up", self.post["id"]
            )
            self._handle_error(ApiError("internal_error"))

    def _wait_for_machine(self, error: ApiError) -> None:
        """Raise StorageError if a scheduled post can wait; an immediate one fails."""
        if error.rule in ("storage.unavailable", "http.busy") and self.post["scheduled_at"] is not None:
            raise StorageError(error.message) from error

    def _handle_error(self, error: ApiError) -> None:
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
            self._execute_step(intent, LookupAnswered(Unknown({"error": error.message})))

    # --- The steps ---

    def _publish(self) -> None:
        downloads = media_download.start_downloads(
            self.service, self.fetched, self.snapshot, offline_plan.build_draft(self.post)
        )
        if downloads:
            self._write(
                lambda tx: transactions.postpone(self.service, tx, self.snapshot, media_download.FALLBACK_SECONDS)
            )
            media_download.wake_after(self.service, downloads, self.post["id"])
            return
        draft = self._draft()
        fault_injection.hit("pub.after_media")
        saved = json.loads(self.post["saved"]) if self.post["saved"] else None
        prepared = self.up.call(lambda up: self.up.connector.prepare(up, draft, saved))
        if isinstance(prepared, Pending):
            fault_injection.hit("cont.after_create_before_save")
            self._write(lambda tx: transactions.save_progress(self.service, tx, self.snapshot, prepared))
            return
        self._send(self._record_intent("publish", prepared.plan, (*self.warnings, *prepared.warnings)))

    def _draft(self) -> Draft:
        """Build the frozen content with media, and check the deep rules."""
        post = self.post
        items = library.build_items(
            self.service, self.fetched, post["batch"], post["platform"], post["media"], self.snapshot.assets
        )
        draft = replace(offline_plan.build_draft(post), items=items)
        option_facts = library.measure_option_images(self.fetched, post["batch"], post["platform"], draft)
        draft = replace(draft, option_facts=option_facts)
        connector_account = upstreams.build_connector_account(self.snapshot.account)
        rule_context = offline_plan.build_rule_context(self.service)
        found = find_violations(self.up.platform, self.up.site, draft, connector_account, rule_context, ("deep",))
        if found.errors:
            raise found.errors[0].error(self.up.platform.pinned(self.up.site))
        self.warnings = found.warnings
        return draft

    def _record_intent(self, step: str, plan: dict[str, Any], warnings: Sequence[PublishWarning] = ()) -> IntentRow:
        intent = self._write(
            lambda tx: transactions.record_intent(self.service, tx, self.snapshot, step, plan, warnings)
        )
        if isinstance(intent, ApiError):
            raise intent
        self.snapshot = replace(self.snapshot, warned=self.snapshot.warned or bool(warnings))
        _hit_fault(intent, "after_intent")
        return intent

    def _send(self, intent: IntentRow, *, earlier_done: bool = True) -> None:
        """Make the public call and handle its response."""
        reply = self._call_platform(intent)
        _hit_fault(intent, "after_reply")
        self._execute_step(intent, SendAnswered(reply, earlier_done))

    def _call_platform(self, intent: IntentRow) -> Published | Pending | ApiError:
        """Make the public call; return its response or error."""
        self.sent = True
        bound = intents.BoundRemoteIds(self.service, intent)
        try:
            return self.up.call(lambda up: self.up.connector.send(up, sql.load_json(intent["plan"])), bound=bound)
        except ApiError as error:
            return error

    def _comment(self, published: Published) -> None:
        """Send the first comment with its own intent; the post is never sent again for it."""
        connector: Any = self.up.connector
        draft = offline_plan.build_draft(self.post)
        try:
            plan = self.up.call(lambda up: connector.comment(up, draft, published, self.snapshot.plan))
        except ApiError as error:
            self._record_failed_comment(None, error)
            return
        self._send(self._record_intent("comment", plan))

    # --- The steps of `decide` ---

    def _execute_step(self, intent: IntentRow, finding: RunFinding) -> None:
        """Execute the step for a finding, and those that follow from it."""
        class_ = self.up.platform.choose_send_class(sql.load_json(intent["plan"]))
        checks = lookup_schedule.compute_times(
            class_, intent["step"], self.service.runtime.settings.publishing.settle_horizon
        )
        step = decide(finding, class_, checks, intent, self.service.now_ms)
        match step:
            case BindRemotePost():
                self._bind(intent, step)
            case PollRemotePost():
                self._record_progress(intent, step.found)
            case CompareEarlierSends():
                earlier = self.service.read(lambda: intents.load_earlier(intent)).result()
                self._execute_step(intent, EarlierSendsCompared(step.error, [self._look_up(each) for each in earlier]))
            case RecordAmbiguity():
                recorded = self._record_ambiguity(intent, step)
                self._execute_step(recorded, AmbiguityRecorded(self.up.is_revoked()))
            case WaitUntil():
                self._write(lambda tx: self.service.jobs.reschedule(tx, self.snapshot.claim, step.at))
            case LookUpRemotePost():
                found = self._look_up(intent)  # may reveal that the account is revoked
                self._execute_step(intent, LookupAnswered(found, self.up.is_revoked()))
            case RetryLookup():
                evidence = step.found.evidence
                self._record(
                    lambda tx: intents.record_lookup(self.service, tx, self.snapshot, intent, evidence, step.at)
                )
            case ResendPlan():
                resent = self._write(lambda tx: self._record_resend(tx, intent, step.found))
                self._send(resent, earlier_done=intent["answered"])
            case FailRefused() | FailAbsent() | FailUnknown() | FailDuplicate():
                self._end(intent, step)
            case _:
                assert_never(step)

    def _bind(self, intent: IntentRow, step: BindRemotePost) -> None:
        """Record the remote post, as reported or found."""
        try:
            self._record_found(intent, step.found, step.by_content)
        except RemotePostTakenError:
            log.warning(
                "post %s: the remote post that was found belongs to another post; the lookup is repeated",
                self.post["id"],
            )
            found = {"found": step.found.uri or step.found.remote_id, "bound": True}
            self._execute_step(intent, LookupAnswered(Unknown(found)))

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
        send = transactions.SuccessfulSend(self.service, self.snapshot, intent, published)
        if last and not by_content:
            self._record_sent(send)
            return
        self._record(lambda tx: self._write_sent(tx, send, last, by_content))
        _hit_fault(intent, "after_result")
        if not last:
            plan = json.loads(intent["plan"])
            self.snapshot = replace(self.snapshot, published=published, plan=plan, open_intent=None)
            self._comment(published)

    def _record_sent(self, send: transactions.SuccessfulSend) -> None:
        """Record the end of most posts, together with others that end now."""
        send = replace(send, on_done=functools.partial(self.on_done, True))
        self._record_by(lambda: self.service.write_together(transactions.publish_sent, send))
        self.is_done = True
        _hit_fault(send.intent, "after_result")

    def _write_sent(self, tx: Tx, send: transactions.SuccessfulSend, last: bool, by_content: bool) -> None:
        if by_content:
            intents.check_same_plan(send.intent)
        if last:
            transactions.publish_sent(tx, [send])
        else:
            transactions.record_sent(self.service, tx, self.snapshot, send.intent, send.published)

    def _record_progress(self, intent: IntentRow, found: Pending) -> None:
        """Store the progress with the send's end: from now on it is polled, never sent again."""
        _hit_fault(intent, "before_result")
        self._record(lambda tx: transactions.save_progress(self.service, tx, self.snapshot, found, intent))
        _hit_fault(intent, "after_result")

    def _record_ambiguity(self, intent: IntentRow, step: RecordAmbiguity) -> IntentRow:
        error = step.error
        log.warning(
            "post %s: the response to its send is ambiguous; it is looked up: %s", self.post["id"], error.message
        )
        if not step.is_informative:
            return intent
        error.platform_response = self.up.redact(error.platform_response)
        is_answered, refused = step.is_answered, step.refused
        return self._record(
            lambda tx: intents.record_ambiguity(
                self.service, tx, self.snapshot, intent, error, is_answered=is_answered, refused=refused
            )
        )

    def _look_up(self, intent: IntentRow) -> Published | Pending | Absent | Unknown:
        """Look up an intent's sends. Finding is proof; not finding is not, before its time."""
        bound = intents.BoundRemoteIds(self.service, intent)
        plan, since = json.loads(intent["plan"]), intent["intent_at"]
        try:
            return self.up.call(lambda up: self.up.connector.settle(up, plan, since), is_lookup=True, bound=bound)
        except ApiError as error:
            return Unknown({"error": error.message, "answer": self.up.redact(error.platform_response)})

    def _record_resend(self, tx: Tx, intent: IntentRow, found: Absent) -> IntentRow:
        counted = intents.record_lookup(self.service, tx, self.snapshot, intent, found.evidence, None)
        return intents.record_resend(self.service, tx, self.snapshot, counted)

    # --- Ends ---

    def _end(self, intent: IntentRow, step: FailRefused | FailAbsent | FailUnknown | FailDuplicate) -> None:
        """Record a final failure, with the error that its owner sees."""
        match step:
            case FailRefused(error):
                self._record_outcome(intent, error, str(error.outcome))
            case FailAbsent(retryable):
                error = unknown_outcomes.build_absent_error(self.up.platform)
                error.retryable = retryable
                self._record_outcome(intent, error, "absent")
            case FailUnknown(found):
                error = unknown_outcomes.build_unknown_error(self.snapshot, self.up.platform, intent, found)
                self._record_outcome(intent, error, "unknown")
            case FailDuplicate(refusal):
                error = unknown_outcomes.build_duplicate_error(self.snapshot, self.up.platform, refusal)
                self._record_outcome(intent, error, "unknown")
            case _:
                assert_never(step)

    def _record_outcome(self, intent: IntentRow, error: ApiError, outcome: str) -> None:
        if intent["step"] == "comment":
            self._record_failed_comment(intent, error, outcome)
        else:
            self._fail(error, intent, outcome)

    def _fail(self, error: ApiError, intent: IntentRow | None = None, outcome: str = "") -> None:
        if self.snapshot.published:
            self._record_failed_comment(intent, error, outcome)
            return
        error.platform_version = error.platform_version or self.up.platform.pinned(self.up.site) or None
        # Separately: of a long response only the beginning is stored.
        error.platform_response = self.up.redact(error.platform_response)
        error.message = self.up.redact(error.message)
        if error.token_refused and error.code == "platform_auth_failed" and error.rule is None:
            error.rule = "account.reconnect_required"
            if error.remediation == ERRORS[error.code].remediation:  # the platform's own advice is better
                error.remediation = SERVICE_RULES[error.rule].remediation
        fault_injection.hit("pub.before_result")
        self._record(lambda tx: transactions.record_failure(self.service, tx, self.snapshot, error, intent, outcome))
        fault_injection.hit("pub.after_result")

    def _record_failed_comment(self, intent: IntentRow | None, error: ApiError, outcome: str = "") -> None:
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

    def _record_by(self, start_write: Callable[[], DbFuture[T]]) -> T:
        """Write a result, known only here, as often as it takes while the process lives."""
        for number in range(10_000):
            try:
                return _await_write(start_write)
            except StorageError:
                wait = WRITE_RETRY_WAITS[min(number, len(WRITE_RETRY_WAITS) - 1)]
                if self.service.db.fenced.is_set() or self.service.process.stopping.wait(wait):
                    raise
        raise StorageError("the result could not be written for hours")


def _await_write(start_write: Callable[[], DbFuture[T]]) -> T:
    try:
        return start_write().result()
    except ApiError as error:
        # Not an error of the platform: the lease expires, and the rows tell how to resume.
        raise StorageError(error.message) from error


def _hit_fault(intent: IntentRow, point: str) -> None:
    fault_injection.hit(f"{'comment' if intent['step'] == 'comment' else 'pub'}.{point}")
