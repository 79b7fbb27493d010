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
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from socialpub import platforms
from socialpub.base import faults
from socialpub.base.errors import ApiError, Outcome, refuse
from socialpub.base.runtime import iso
from socialpub.domain import accounts, media, outcomes
from socialpub.domain.outcomes import LostClaimError, Row, Snapshot
from socialpub.domain.service import Service
from socialpub.platforms.base import (
    KEY,
    Absent,
    Connector,
    Draft,
    Pending,
    Published,
    SendClass,
    Surroundings,
    Tokens,
    Unknown,
    Upstream,
    Warning,
)
from socialpub.platforms.rules import findings, warning
from socialpub.store.db import Tx
from socialpub.store.queue import Claim

log = logging.getLogger("socialpub.publish")

T = TypeVar("T")
TOKEN_MARGIN_MS = 60_000
COMMENT_CHECKS = (0.0, 1.0, 5.0)
LANE_SECONDS = 120.0


class StorageError(Exception):
    """A result could not be written; the post is taken up again when its lease has run out."""


def run(service: Service, fetched: media.Fetched, claim: Claim) -> None:
    """Answer a post's doorbell: go on with it from wherever its rows say it is."""
    snapshot = service.write(lambda tx: outcomes.claim(service, tx, claim)).result()
    if snapshot is None:
        return
    faults.hit("pub.after_claim")
    try:
        _Run(service, fetched, snapshot).go()
    except LostClaimError:
        log.warning("post %s was taken over by another run", claim.key)
    except StorageError as error:
        log.error("post %s: its state could not be written: %s", claim.key, error)


def run_lane(service: Service, fetched: media.Fetched, claims: Sequence[Claim]) -> None:
    """The targets of one account in an immediate batch, one after the other."""
    for claim in claims:
        if service.jobs.lanes.enter(claim.lane, LANE_SECONDS):
            try:
                run(service, fetched, claim)
            except Exception:  # noqa: BLE001 - a thread of the pool has no caller; the lease brings the post back
                log.exception("publishing post %s stopped", claim.key)
            finally:
                service.jobs.lanes.leave(claim.lane)
                service.jobs.drop(claim)
        else:
            _give_back(service, claim)


def _give_back(service: Service, claim: Claim) -> None:
    service.write(lambda tx: service.jobs.again(tx, claim, service.now_ms)).result()


@dataclass
class _Run:
    """One run over one post. Methods are the steps; each ends in a transaction of `outcomes`."""

    service: Service
    fetched: media.Fetched
    snapshot: Snapshot
    tokens: Tokens | None = None  # opened by the first call
    notes: tuple[Warning, ...] = ()

    def go(self) -> None:
        try:
            if self.snapshot.open_intent:
                self._settle(self.snapshot.open_intent)
            elif self.snapshot.published:
                self._comment(self.snapshot.published)
            else:
                self._publish()
        except ApiError as error:
            self._fail(error)
        except (LostClaimError, StorageError):
            raise
        except Exception:  # noqa: BLE001 - a bug must not lose the post
            log.exception("post %s: a bug in publishing", self.post["id"])
            self._crashed()

    # --- The steps ---

    def _publish(self) -> None:
        draft = self._draft()
        faults.hit("pub.after_media")
        saved = json.loads(self.post["saved"]) if self.post["saved"] else None
        prepared = self._call(lambda up: self._connector().prepare(up, draft, saved))
        if isinstance(prepared, Pending):
            self._write(lambda tx: outcomes.pending(self.service, tx, self.snapshot, prepared.saved, prepared.seconds))
            return
        notes = (*self.notes, *prepared.warnings)
        self._send(self._intend("publish", prepared.plan, notes))

    def _draft(self) -> Draft:
        """The frozen content with its bytes; deep rules are checked here."""
        post = self.post
        platform = platforms.platform(post["platform"])
        items = media.with_bytes(
            self.service, self.fetched, post["batch"], post["platform"], post["media"], self.snapshot.assets
        )
        draft = Draft(
            text=post["text"],
            items=items,
            options=json.loads(post["options"]),
            first_comment=post["first_comment"],
            now_ms=post["draft_at"],
            nonce=post["draft_nonce"],
        )
        found = findings(
            platform, self._site, draft, accounts.who(self.snapshot.account), surroundings(self.service), ("deep",)
        )
        if found.errors:
            raise found.errors[0].error(platform.pinned(self._site))
        self.notes = found.warnings
        return draft

    def _intend(self, step: str, plan: dict[str, Any], notes: Sequence[Any] = ()) -> Row:
        intent = self._write(lambda tx: outcomes.intend(self.service, tx, self.snapshot, step, plan, notes))
        faults.hit("pub.after_intent" if step == "publish" else "comment.after_intent")
        return intent

    def _send(self, intent: Row, *, all_answered: bool = True) -> None:
        """The one public call, and what its answer means."""
        try:
            published = self._call(lambda up: self._connector().send(up, json.loads(intent["plan"])))
            faults.hit("pub.after_reply")
        except ApiError as error:
            faults.hit("pub.after_reply")
            self._sent_badly(intent, error, all_answered)
            return
        self._sent(intent, published)

    def _sent_badly(self, intent: Row, error: ApiError, all_answered: bool) -> None:
        ambiguous = error.outcome in (None, Outcome.AMBIGUOUS)
        # A container that was asked to publish and answers "later" may have done it: it is asked, not trusted.
        if error.outcome == Outcome.THROTTLED and self._class.name == "container":
            ambiguous = True
        if not ambiguous:
            self._end(intent, error, str(error.outcome))
            return
        log.warning("post %s: the answer to its send is unclear: %s", self.post["id"], error.message)
        if error.platform_response is not None and all_answered:
            intent = self._write(lambda tx: outcomes.answered(self.service, tx, self.snapshot, intent, error))
        self._wait_or_settle(intent)

    def _sent(self, intent: Row, published: Published) -> None:
        faults.hit("pub.before_result")
        if intent["step"] == "comment":
            post = self.snapshot.published
            assert post is not None, "a comment follows a published post"
            self._write(lambda tx: outcomes.commented(self.service, tx, self.snapshot, intent, post, published))
            return
        last = not (self.post["first_comment"] and hasattr(self._connector(), "comment"))
        self._write(lambda tx: outcomes.sent(self.service, tx, self.snapshot, intent, published, last=last))
        faults.hit("pub.after_result")
        if not last:
            plan = json.loads(intent["plan"])
            self.snapshot = replace(self.snapshot, published=published, plan=plan, open_intent=None)
            self._comment(published)

    def _comment(self, published: Published) -> None:
        """The first comment: its own step; the main post is never sent again for it."""
        connector: Any = self._connector()
        try:
            draft = Draft(
                text=self.post["text"],
                first_comment=self.post["first_comment"],
                options=json.loads(self.post["options"]),
                now_ms=self.post["draft_at"],
                nonce=self.post["draft_nonce"],
            )
            plan = self._call(lambda up: connector.comment(up, draft, published, self.snapshot.plan))
        except ApiError as error:
            self._uncommented(None, error)
            return
        self._send(self._intend("comment", plan))

    # --- Settling ---

    def _wait_or_settle(self, intent: Row) -> None:
        """Look now if it is time to, else ring again when it is."""
        at = self._next_look(intent)
        if at is None:
            self._unsettled(intent, Unknown())
        elif at <= self.service.now_ms:
            self._settle(intent)
        else:
            self._write(lambda tx: self.service.jobs.again(tx, self.snapshot.claim, at))

    def _settle(self, intent: Row) -> None:
        """Look for what the send may have done. Finding is proof; not finding is not, until the horizon has passed."""
        try:
            found = self._call(
                lambda up: self._connector().settle(up, json.loads(intent["plan"]), intent["intent_at"]), looking=True
            )
        except ApiError as error:
            found = Unknown({"error": error.message, "answer": error.platform_response})
        if isinstance(found, Published):
            self._sent(intent, found)
        elif isinstance(found, Absent) and self._may_resend(intent):
            again = self._write(lambda tx: self._looked_and_again(tx, intent, found))
            self._send(again, all_answered=intent["answered"])
        elif isinstance(found, Absent) and self._known_absent(intent):
            self._end(intent, self._not_there(), "absent")
        else:
            self._unsettled(intent, found)

    def _looked_and_again(self, tx: Tx, intent: Row, found: Absent) -> Row:
        seen = outcomes.looked(self.service, tx, self.snapshot, intent, found.evidence, None)
        return outcomes.intend_again(self.service, tx, self.snapshot, seen)

    def _unsettled(self, intent: Row, found: Absent | Unknown) -> None:
        final = isinstance(found, Unknown) and found.final
        at = None if final else self._next_look(intent | {"looks": intent["looks"] + 1})
        if at is None:
            self._end(intent, self._unknown(intent, found), "unknown")
            return
        self._write(lambda tx: outcomes.looked(self.service, tx, self.snapshot, intent, found.evidence, at))

    def _next_look(self, intent: Row) -> int | None:
        checks = COMMENT_CHECKS if intent["step"] == "comment" else self._checks
        if intent["looks"] >= len(checks):
            return None
        return int(intent["intent_at"] + checks[intent["looks"]] * 1000)

    @property
    def _checks(self) -> tuple[float, ...]:
        checks = self._class.checks
        if self._class.name == "none":
            horizon = self.service.runtime.settings.publishing.settle_horizon
            checks = (*(check for check in checks if check < horizon), horizon)
        return checks

    def _may_resend(self, intent: Row) -> bool:
        allowed = self._class.answered_resends if intent["answered"] else self._class.resends
        last = self._next_look(intent | {"looks": intent["looks"] + 1}) is None
        return intent["sends"] <= allowed and not last

    def _known_absent(self, intent: Row) -> bool:
        """Absent is proof: every call is over, and the place that was looked at is the post's own."""
        if self._class.resends == 0:
            return False
        return bool(intent["answered"]) or (
            self._class == KEY and self._next_look(intent | {"looks": intent["looks"] + 1}) is None
        )

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
        platform = platforms.platform(self.post["platform"])
        error.platform_version = error.platform_version or platform.pinned(self._site) or None
        error.platform_response = self._scrubbed(error.platform_response)
        if error.code == "platform_auth_failed" and error.rule is None:
            error.rule, error.remediation = "account.reconnect_required", "Reconnect the account, then try again."
        faults.hit("pub.before_result")
        self._write(lambda tx: outcomes.failed(self.service, tx, self.snapshot, error, intent, outcome))
        faults.hit("pub.after_result")

    def _uncommented(self, intent: Row | None, error: ApiError, outcome: str = "") -> None:
        published = self.snapshot.published
        assert published is not None, "a comment follows a published post"
        note = warning("first_comment_failed", error.message)
        self._write(lambda tx: outcomes.uncommented(self.service, tx, self.snapshot, intent, published, note, outcome))

    def _crashed(self) -> None:
        """A bug: what was not sent fails; what may have been sent is looked for later."""
        if self._write(lambda tx: self._leave_open(tx)):
            return
        self._fail(ApiError("internal_error"))

    def _leave_open(self, tx: Tx) -> bool:
        if not outcomes.has_open_intent(self.post["id"]):
            return False
        return self.service.jobs.again(tx, self.snapshot.claim, self.service.now_ms + 60_000)

    def _not_there(self) -> ApiError:
        label = platforms.platform(self.post["platform"]).label
        return ApiError(
            "platform_unavailable", f"{label} did not take the post; it was looked for afterwards and is not there."
        )

    def _unknown(self, intent: Row, found: Absent | Unknown) -> ApiError:
        platform = platforms.platform(self.post["platform"])
        name = self.snapshot.account["display_name"] or self.snapshot.account["platform_account_id"]
        return refuse(
            "publish.outcome_unknown",
            f"The post was sent to {platform.label} at {iso(intent['sent_at'])} and no answer came. It may be live.",
            remediation=(
                f'Look at {name} on {platform.label}. If the post is there, send {{"published": true}} to '
                f'POST /v1/posts/{self.post["id"]}/settle; if it is not, {{"published": false}}, then retry it.'
            ),
            platform_response=found.evidence or None,
        )

    # --- Tools ---

    @property
    def post(self) -> Row:
        return self.snapshot.post

    @property
    def _site(self) -> Any:
        return self.service.sites[self.post["platform"]]

    @property
    def _class(self) -> SendClass:
        return platforms.platform(self.post["platform"]).send_class

    def _connector(self) -> Connector:
        platform = platforms.platform(self.post["platform"])
        accounts.enabled(self.service, platform)
        return platforms.CONNECTORS[platform.name]

    def _write(self, run: Callable[[Tx], T]) -> T:
        try:
            return self.service.write(run).result()
        except ApiError as error:
            # Never taken for an answer of the platform: the lease runs out and the rows tell how to go on.
            raise StorageError(error.message) from error

    def _call(self, step: Callable[[Upstream], T], *, looking: bool = False) -> T:
        """One connector function over a fresh line; an expired access token is refreshed once, and the step repeated.

        `looking`: goes on with a token that cannot be refreshed (some platforms let anybody look).
        """
        if self.tokens is None:
            self.tokens = self._unsent(lambda: self._open_tokens(refresh=not looking))
        tokens = self.tokens
        try:
            return self._over_a_line(step, tokens)
        except ApiError as error:
            if not error.stale_token or not tokens.refresh:
                raise
        self.tokens = self._unsent(lambda: accounts.refresh(self.service, self.snapshot.account, tokens))
        return self._over_a_line(step, self.tokens)

    def _unsent(self, run: Callable[[], Tokens]) -> Tokens:
        """Whatever happens while getting tokens, nothing of the post was sent by it."""
        try:
            return run()
        except ApiError as error:
            error.outcome = Outcome.NOT_SENT
            raise

    def _open_tokens(self, *, refresh: bool) -> Tokens:
        account = self.snapshot.account
        if account["secret"] is None:
            raise refuse("account.disconnected")
        tokens = accounts.open_tokens(self.service, account["id"], account["secret"])
        ends = tokens.expires_at_ms
        if refresh and tokens.refresh and ends is not None and ends - TOKEN_MARGIN_MS < self.service.now_ms:
            tokens = accounts.refresh(self.service, account, tokens)
        return tokens

    def _over_a_line(self, step: Callable[[Upstream], T], tokens: Tokens) -> T:
        account = accounts.who(self.snapshot.account)
        with accounts.line(self.service, self.post["platform"], account, tokens) as up:
            return step(up)

    def _scrubbed(self, response: Any) -> Any:
        return accounts.scrub(response, self.tokens or Tokens(""))


def surroundings(service: Service, recent_posts: int = 0) -> Surroundings:
    """What a few rules ask beside the content."""
    return Surroundings(service.base_url, service.runtime.settings.security.allow_private_networks, recent_posts)
