"""Overview of what needs attention: failures grouped by cause, accounts, overdue posts.

All of it is bounded by what a page can show. Failures cover the last days; older ones are in the post log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import TypedDict

from socialpub.base.errors import ApiError
from socialpub.base.runtime import DAY_MS
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.posts import post_actions, post_log
from socialpub.domain.schemas.accounts import AccountBody
from socialpub.domain.schemas.health import PausedReason
from socialpub.domain.schemas.posts import PostsQuery, RetryRequest
from socialpub.domain.server import instance
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import overview, post_json

FAILURE_WINDOW_MS = 7 * DAY_MS
OVERDUE_AFTER_MS = 60_000  # beyond this a post is overdue, not merely in progress
FAILURES_MAX = 500
UNKNOWN_MAX = 20  # shown, as are those of the next two; one more is loaded, to say so
PROBLEMS_MAX = 10
GROUPS_MAX = 20
EXAMPLES_MAX = 5
EVENTS_MAX = 500
POSTS_MAX = 40  # of the lists of what is next and what was published: a few publications
WAITING_MAX = 1000
BULK_MAX = 100
SHOWN_ELSEWHERE = {"publish.outcome_unknown", "thread.previous_missing"}
"""Rules of failures that are no cause: unknown outcomes have a list of their own, and pieces follow by themselves."""


@dataclass(frozen=True)
class PostSummary:
    """Summary of a post."""

    id: str
    account: str
    platform: str
    status: str
    text: str
    error: dict[str, Any]
    updated_at: int


@dataclass
class FailureGroup:
    """Failed posts of an account with one cause; count and newest examples."""

    account: str
    platform: str
    status: str
    code: str
    rule: str
    newest: PostSummary
    count: int = 0
    examples: list[PostSummary] = field(default_factory=list)

    def add(self, post: PostSummary) -> None:
        self.count += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(post)


@dataclass(frozen=True)
class AccountProblem:
    """Account that is expiring, revoked or refused something; `waiting` posts are queued."""

    account: AccountBody
    waiting: int


class OnboardingSteps(TypedDict):
    """Completed steps of the first run."""

    connected: bool
    key: bool
    published: bool


@dataclass(frozen=True)
class Overview:
    """Overview of a scope."""

    paused: PausedReason | None
    unknown: list[PostSummary]
    failures: list[FailureGroup]
    problems: list[AccountProblem]
    overdue_count: int
    overdue_since: int | None
    next: Any
    published: Any
    steps: OnboardingSteps
    accounts: dict[str, AccountBody]

    @property
    def has_no_problems(self) -> bool:
        """True if nothing needs attention."""
        return not (self.paused or self.unknown or self.failures or self.problems or self.overdue_count)


def load(service: AppContext, scope: Scope) -> Overview:
    """Load the overview of a scope in one read."""
    connected = accounts.list_bodies(scope)
    overdue_count, since = sql.fetch_one(
        overview.COUNT_OVERDUE, (scope.organization, scope.profile, service.now_ms - OVERDUE_AFTER_MS)
    )
    return Overview(
        paused=instance.get_pause_reason(),
        unknown=_build_summaries(
            sql.fetch_all(overview.FIND_UNKNOWN_OUTCOMES, (scope.organization, scope.profile, UNKNOWN_MAX + 1))
        ),
        failures=_group_failures(_load_failures(service, scope)),
        problems=_load_problems(scope, connected),
        overdue_count=overdue_count,
        overdue_since=since,
        next=_load_next(service, scope),
        published=_load_published(scope),
        steps=_load_steps(scope),
        accounts={body["id"]: body for body in connected},
    )


def _load_steps(scope: Scope) -> OnboardingSteps:
    connected, key, published = sql.fetch_one(overview.FIND_ONBOARDING_STEPS, (scope.organization,))
    return {"connected": bool(connected), "key": bool(key), "published": bool(published)}


# --- Failures ----------------------------------------------------------------------------------------------------


def _load_failures(service: AppContext, scope: Scope) -> list[PostSummary]:
    """Load the newest posts that failed for a reason of their own."""
    text, owner = (
        (overview.FIND_FAILED_OF_ORGANIZATION, scope.organization)
        if scope.profile is None
        else (overview.FIND_FAILED_OF_PROFILE, scope.profile)
    )
    found = _build_summaries(sql.fetch_all(text, (owner, service.now_ms - FAILURE_WINDOW_MS, FAILURES_MAX)))
    return [post for post in found if post.error.get("rule") not in SHOWN_ELSEWHERE]


def _build_summaries(rows: Iterable[Sequence[Any]]) -> list[PostSummary]:
    return [
        PostSummary(id_, account, platform, status, text, sql.load_json(error) if error else {}, at)
        for id_, account, platform, status, text, error, at in rows
    ]


def _group_failures(examples: Iterable[PostSummary]) -> list[FailureGroup]:
    """Group failures by cause, newest first."""
    groups: dict[tuple[str, ...], FailureGroup] = {}
    for post in examples:
        code, rule = post.error.get("code", ""), post.error.get("rule", "")
        key = (post.account, post.status, code, rule)
        group = groups.setdefault(key, FailureGroup(post.account, post.platform, post.status, code, rule, post))
        group.add(post)
    return list(groups.values())


def retry_all(tx: Tx, who: Actor, account: str, code: str, rule: str) -> ActionResult:
    """Retry up to a hundred posts that failed for a cause; return the `{count}` retried.

    Raises ApiError if every post was refused.
    """
    service, again = who.service, 0
    wanted = [
        post
        for post in _load_failures(service, who.scope)
        if (post.account, post.error.get("code", ""), post.error.get("rule", "")) == (account, code, rule)
    ]
    refusals = []
    for post in wanted[:BULK_MAX]:
        try:
            post_actions.retry(tx, who, post.id, RetryRequest())
            again += 1
        except ApiError as error:  # another request was faster, or its media were deleted
            refusals.append(error)
    if refusals and not again:
        raise refusals[0]
    return _count_result(again, account)


def cancel_all(tx: Tx, who: Actor, account: str) -> ActionResult:
    """Cancel up to a hundred queued posts of an account; return `{count}`. Raises `not_found`."""
    accounts.find(who.scope, account)
    canceled = 0
    for (post,) in sql.fetch_all(overview.FIND_QUEUED, (account, who.service.now_ms, BULK_MAX)):
        with contextlib.suppress(ApiError):
            post_actions.cancel(tx, who, post)
            canceled += 1
    return _count_result(canceled, account)


def _count_result(count: int, account: str) -> ActionResult:
    body: dict[str, object] = {"count": count}
    return ActionResult(body, subject=account)


# --- Accounts ----------------------------------------------------------------------------------------------------


def _load_problems(scope: Scope, connected: Iterable[AccountBody]) -> list[AccountProblem]:
    affected = [body for body in connected if body["status"] != "active" or "attention" in body]
    return [AccountProblem(body, count_waiting(scope, body["id"])) for body in affected[: PROBLEMS_MAX + 1]]


def count_waiting(scope: Scope, account: str) -> int:
    """Count the queued posts of an account, up to a limit."""
    count: int = sql.fetch_value(overview.COUNT_WAITING, (account, scope.organization, WAITING_MAX))
    return count


# --- Due and published ---------------------------------------------------------------------------------------------


def _load_next(service: AppContext, scope: Scope) -> Any:
    query = PostsQuery.model_validate({"order": "scheduledAt", "status": ["queued"], "limit": POSTS_MAX})
    return sql.load_json(post_log.load_page(service, scope, query))["data"]


def _load_published(scope: Scope) -> Any:
    numbers = sql.fetch_all(overview.FIND_LAST_PUBLISHED, (scope.organization, scope.profile, EVENTS_MAX, POSTS_MAX))
    posts = sql.fetch_value(post_json.FIND_BY_NUMBERS, (sql.dump_json([number for (number,) in numbers]),))
    return sql.load_json(f"[{posts or ''}]")
