"""Publishing one target: claim, prepare, intend, send, settle. Nothing else in the program publishes.

The promise: an accepted post is published once, or its owner is told exactly what is known. So the intent is durable
before the one public call; every answer is sorted by the platform's table, and what is not in it is ambiguous; an
ambiguous send is settled by looking; and the same plan is only sent again where the platform makes that harmless
(its `SendClass`), after looking found nothing. All of it runs in I/O threads that hold no database connection.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from socialpub.base import faults
from socialpub.base.error_codes import ERRORS
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.service_rules import SERVICE_RULES
from socialpub.domain.accounts import accounts
from socialpub.domain.accounts.calling import Caller, StorageError
from socialpub.domain.core import disk
from socialpub.domain.core.service import Service
from socialpub.domain.media import library
from socialpub.domain.publishing import bringing, horizon, intents, records, unclear
from socialpub.domain.publishing.intents import LostClaimError, Row, Snapshot, TakenError
from socialpub.platforms.contract import Absent, Draft, Pending, Published, SendClass, Surroundings, Unknown, Warning
from socialpub.platforms.kit.rules import findings, warning
from socialpub.store.db import Tx
from socialpub.store.queue import Claim

log = logging.getLogger("socialpub.publish")

T = TypeVar("T")
LANE_SECONDS = 120.0
RECORD_WAITS = (0.5, 1.0, 2.0, 5.0)


def run(service: Service, fetched: library.Fetched, claim: Claim) -> bool:
    """Answer a post's doorbell: go on with it from wherever its rows say it is. Whether something public was sent."""
    snapshot = service.write(lambda tx: records.claim(service, tx, claim)).result()
    if snapshot is None:
        return False
    faults.hit("pub.after_claim")
    this = _Run(service, fetched, snapshot)
    try:
        this.go()
    except LostClaimError:
        log.warning("post %s was taken over by another run", claim.key)
    except StorageError as error:
        log.error("post %s: its state could not be written: %s", claim.key, error)
    return this.sent


def run_lane(service: Service, fetched: library.Fetched, claims: Sequence[Claim]) -> None:
    """The targets of one account in an immediate batch, one after the other."""
    for claim in claims:
        try:
            if service.jobs.lanes.enter(claim.lane, LANE_SECONDS):
                try:
                    run(service, fetched, claim)
                finally:
                    service.jobs.lanes.leave(claim.lane)
            else:
                _give_back(service, claim)
        except Exception:  # noqa: BLE001 - a thread of the pool has no caller; the lease brings the post back
            log.exception("publishing post %s stopped", claim.key)
        finally:
            service.jobs.drop(claim)


def _give_back(service: Service, claim: Claim) -> None:
    service.write(lambda tx: service.jobs.again(tx, claim, service.now_ms)).result()


@dataclass
class _Run:
    """One run over one post. Methods are the steps; each ends in a transaction of `outcomes`."""

    service: Service
    fetched: library.Fetched
    snapshot: Snapshot
    notes: tuple[Warning, ...] = ()
    sent: bool = False  # something public was called
    up: Caller = field(init=False)

    def __post_init__(self) -> None:
        self.up = Caller(self.service, self.snapshot.account)

    def go(self) -> None:
        try:
            if self.snapshot.open_intent:
                intent = self.snapshot.open_intent
                due = horizon.due_look(self._checks(intent), intent, self.service.now_ms)
                self._settle_at(intent, self.service.now_ms if self.up.is_revoked() else due)
            elif self.snapshot.published:
                self._comment(self.snapshot.published)
            else:
                self._publish()
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
        attempt = self.snapshot.attempt["id"]
        intent, published = self.service.read(
            lambda: (intents.open_intent(self.post["id"]), intents.done(attempt))
        ).result()
        if published:
            self.snapshot = replace(self.snapshot, published=published)
        if intent is None:
            self._fail(error)
        else:
            self._unsettled(intent, Unknown({"error": error.message}))

    # --- The steps ---

    def _publish(self) -> None:
        coming = bringing.begun(self.service, self.fetched, self.snapshot, self._bare_draft())
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
        self._send(self._intend("publish", prepared.plan, (*self.notes, *prepared.warnings)))

    def _draft(self) -> Draft:
        """The frozen content with its bytes; deep rules are checked here."""
        post = self.post
        items = library.with_bytes(
            self.service, self.fetched, post["batch"], post["platform"], post["media"], self.snapshot.assets
        )
        draft = replace(self._bare_draft(), items=items)
        pictures = library.option_facts(self.fetched, post["batch"], post["platform"], draft)
        draft = replace(draft, option_facts=pictures)
        who, around = accounts.who(self.snapshot.account), surroundings(self.service)
        found = findings(self.up.platform, self.up.site, draft, who, around, ("deep",))
        if found.errors:
            raise found.errors[0].error(self.up.platform.pinned(self.up.site))
        self.notes = found.warnings
        return draft

    def _bare_draft(self) -> Draft:
        post = self.post
        return Draft(
            text=post["text"],
            options=json.loads(post["options"]),
            first_comment=post["first_comment"],
            now_ms=post["draft_at"],
            nonce=post["draft_nonce"],
        )

    def _intend(self, step: str, plan: dict[str, Any], notes: Sequence[Warning] = ()) -> Row:
        intent = self._write(lambda tx: records.intend(self.service, tx, self.snapshot, step, plan, notes))
        if isinstance(intent, ApiError):
            raise intent
        _hit(intent, "after_intent")
        return intent

    def _send(self, intent: Row, *, earlier_over: bool = True) -> None:
        """The one public call, and what its answer means. `earlier_over`: no earlier call can still take effect."""
        self.sent = True
        bound = self._bound(intent)
        try:
            answer = self.up.call(lambda up: self.up.connector.send(up, json.loads(intent["plan"])), bound=bound)
        except ApiError as error:
            _hit(intent, "after_reply")
            self._sent_badly(intent, error, earlier_over)
            return
        _hit(intent, "after_reply")
        if isinstance(answer, Pending):
            self._taken(intent, answer)
        else:
            self._found(intent, answer)

    def _taken(self, intent: Row, found: Pending) -> None:
        """What the platform named is kept with the send's end: from here on it is asked about, never sent again."""
        _hit(intent, "before_result")
        self._record(lambda tx: records.pending(self.service, tx, self.snapshot, found, intent))
        _hit(intent, "after_result")

    def _sent_badly(self, intent: Row, error: ApiError, earlier_over: bool) -> None:
        refused = error.outcome in (Outcome.REJECTED, Outcome.THROTTLED)
        clear = refused or error.outcome is Outcome.NOT_SENT
        # A container that was asked to publish may have done it whatever it says: it is asked, not trusted.
        asked = refused and self._class(intent).name == "container" and not error.absent
        if clear and earlier_over and not asked:
            self._refused(intent, error)
            return
        log.warning("post %s: the answer to its send is unclear: %s", self.post["id"], error.message)
        kept = asked or error.outcome is Outcome.REJECTED
        answered = error.platform_response is not None
        over = earlier_over and answered
        if answered or kept:
            error.platform_response = self.up.scrubbed(error.platform_response)
            intent = self._record(
                lambda tx: intents.answered(self.service, tx, self.snapshot, intent, error, over=over, refused=kept)
            )
        now = self.service.now_ms
        self._settle_at(intent, horizon.next_look(self._checks(intent), intent, now) or now)

    def _refused(self, intent: Row, error: ApiError) -> None:
        """It was not taken; where the platform says that it has the post already, earlier sends are looked for."""
        earlier = self.service.read(lambda: intents.earlier(intent)).result() if error.duplicate else []
        looks = [self._look(each) for each in earlier]
        made = next((found for found in looks if isinstance(found, Published)), None)
        if made:
            self._found(intent, made, by_content=True)
        elif all(isinstance(found, Absent) for found in looks):
            self._end(intent, error, str(error.outcome))
        else:
            self._end(intent, unclear.is_duplicate(self.snapshot, self.up.platform, error), "unknown")

    def _found(self, intent: Row, published: Published, *, by_content: bool = False) -> None:
        """The platform has it, by its own word or because it was found there."""
        try:
            self._sent(intent, published, by_content)
        except TakenError:
            log.warning("post %s: what was found belongs to another post", self.post["id"])
            self._unsettled(intent, Unknown({"found": published.uri or published.remote_id, "bound": True}))

    def _sent(self, intent: Row, published: Published, by_content: bool) -> None:
        _hit(intent, "before_result")
        if intent["step"] == "comment":
            post = self.snapshot.published
            assert post is not None, "a comment follows a published post"
            self._record(lambda tx: records.commented(self.service, tx, self.snapshot, intent, post, published))
            _hit(intent, "after_result")
            return
        last = not (self.post["first_comment"] and hasattr(self.up.connector, "comment"))
        self._record(lambda tx: self._write_sent(tx, intent, published, last, by_content))
        _hit(intent, "after_result")
        if not last:
            plan = json.loads(intent["plan"])
            self.snapshot = replace(self.snapshot, published=published, plan=plan, open_intent=None)
            self._comment(published)

    def _write_sent(self, tx: Tx, intent: Row, published: Published, last: bool, by_content: bool) -> None:
        if by_content:
            intents.check_twins(intent)
        records.sent(self.service, tx, self.snapshot, intent, published, last=last)

    def _comment(self, published: Published) -> None:
        """The first comment: its own step; the main post is never sent again for it."""
        connector: Any = self.up.connector
        draft = self._bare_draft()
        try:
            plan = self.up.call(lambda up: connector.comment(up, draft, published, self.snapshot.plan))
        except ApiError as error:
            self._uncommented(None, error)
            return
        self._send(self._intend("comment", plan))

    # --- Settling ---

    def _settle_at(self, intent: Row, at: int) -> None:
        """Look now if it is time to, else ring again when it is."""
        if at <= self.service.now_ms:
            self._settle(intent)
        else:
            self._write(lambda tx: self.service.jobs.again(tx, self.snapshot.claim, at))

    def _settle(self, intent: Row) -> None:
        """Look for what the send may have done. Finding is proof; not finding is not, until the horizon has passed."""
        if self.up.is_revoked() and _said_no(intent):
            self._unasked(intent, Unknown())
            return
        found = self._look(intent)
        revoked = self.up.is_revoked()  # which looking may have told
        class_, checks, now = self._class(intent), self._checks(intent), self.service.now_ms
        if isinstance(found, Published):
            self._found(intent, found, by_content=class_.name == "none")
        elif isinstance(found, Pending):
            self._taken(intent, found)
        elif isinstance(found, Absent) and not revoked and horizon.may_resend(class_, checks, intent, now):
            again = self._write(lambda tx: self._looked_and_again(tx, intent, found))
            self._send(again, earlier_over=intent["answered"])
        elif isinstance(found, Absent) and horizon.is_absent(class_, checks, intent, now):
            error = intents.refusal(intent) or unclear.not_there(self.up.platform)
            error.retryable = error.retryable and not horizon.is_late(checks, intent, now)  # hours later is a surprise
            self._end(intent, error, str(error.outcome or "absent"))
        elif revoked:
            self._unasked(intent, found)
        else:
            self._unsettled(intent, found)

    def _unasked(self, intent: Row, found: Absent | Unknown) -> None:
        """The account is revoked: a refusal stands, of anything else the outcome is unknown."""
        error = _said_no(intent)
        if error:
            self._end(intent, error, str(error.outcome))
        else:
            self._end(intent, unclear.not_seen(self.snapshot, self.up.platform, intent, found), "unknown")

    def _look(self, intent: Row) -> Published | Pending | Absent | Unknown:
        bound, plan, since = self._bound(intent), json.loads(intent["plan"]), intent["intent_at"]
        try:
            return self.up.call(lambda up: self.up.connector.settle(up, plan, since), looking=True, bound=bound)
        except ApiError as error:
            return Unknown({"error": error.message, "answer": self.up.scrubbed(error.platform_response)})

    def _looked_and_again(self, tx: Tx, intent: Row, found: Absent) -> Row:
        seen = intents.looked(self.service, tx, self.snapshot, intent, found.evidence, None)
        return intents.intend_again(self.service, tx, self.snapshot, seen)

    def _unsettled(self, intent: Row, found: Absent | Unknown) -> None:
        final = isinstance(found, Unknown) and found.final
        counted = intent | {"looks": intent["looks"] + 1}
        at = None if final else horizon.next_look(self._checks(intent), counted, self.service.now_ms)
        if at is None:
            self._end(intent, unclear.not_seen(self.snapshot, self.up.platform, intent, found), "unknown")
            return
        self._record(lambda tx: intents.looked(self.service, tx, self.snapshot, intent, found.evidence, at))

    def _bound(self, intent: Row) -> frozenset[str]:
        return self.service.read(lambda: intents.bound(intent)).result()

    def _class(self, intent: Row) -> SendClass:
        return self.up.platform.class_of(json.loads(intent["plan"]))

    def _checks(self, intent: Row) -> tuple[float, ...]:
        settle_horizon = self.service.runtime.settings.publishing.settle_horizon
        return horizon.checks_of(self._class(intent), intent["step"], settle_horizon)

    # --- Ends ---

    def _end(self, intent: Row, error: ApiError, outcome: str) -> None:
        if intent["step"] == "comment":
            self._uncommented(intent, error, outcome)
        else:
            self._fail(error, intent, outcome)

    def _fail(self, error: ApiError, intent: Row | None = None, outcome: str = "") -> None:
        if self.snapshot.published:
            self._uncommented(intent, error, outcome)
            return
        error.platform_version = error.platform_version or self.up.platform.pinned(self.up.site) or None
        error.platform_response, error.message = self.up.scrubbed([error.platform_response, error.message])
        if error.token_refused and error.code == "platform_auth_failed" and error.rule is None:
            error.rule = "account.reconnect_required"
            if error.remediation == ERRORS[error.code].remediation:  # the platform's own advice is better
                error.remediation = SERVICE_RULES[error.rule].remediation
        faults.hit("pub.before_result")
        self._record(lambda tx: records.failed(self.service, tx, self.snapshot, error, intent, outcome))
        faults.hit("pub.after_result")

    def _uncommented(self, intent: Row | None, error: ApiError, outcome: str = "") -> None:
        published = self.snapshot.published
        assert published is not None, "a comment follows a published post"
        note = warning("first_comment_failed", error.message)
        self._record(lambda tx: records.uncommented(self.service, tx, self.snapshot, intent, published, note, outcome))

    # --- Writing ---

    @property
    def post(self) -> Row:
        return self.snapshot.post

    def _write(self, run: Callable[[Tx], T]) -> T:
        try:
            return self.service.write(run).result()
        except ApiError as error:
            # Never taken for an answer of the platform: the lease runs out and the rows tell how to go on.
            raise StorageError(error.message) from error

    def _record(self, run: Callable[[Tx], T]) -> T:
        """Write what is now known, which nobody else knows: as often as it takes, while this process lives."""
        for number in range(10_000):
            try:
                return self._write(run)
            except StorageError:
                wait = RECORD_WAITS[min(number, len(RECORD_WAITS) - 1)]
                if self.service.db.fenced.is_set() or self.service.stopping.wait(wait):
                    raise
        raise StorageError("the result could not be written for hours")


def _said_no(intent: Row) -> ApiError | None:
    """The platform's refusal of a send, where no other one can still take effect."""
    return intents.refusal(intent) if intent["answered"] else None


def _hit(intent: Row, point: str) -> None:
    faults.hit(f"{'comment' if intent['step'] == 'comment' else 'pub'}.{point}")


def surroundings(service: Service, recent_posts: int = 0) -> Surroundings:
    """What a few rules ask beside the content."""
    return Surroundings(service.base_url, service.runtime.settings.security.allow_private_networks, recent_posts)
