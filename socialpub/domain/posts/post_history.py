"""Earlier posts of the accounts: repeated texts, caps nearly reached, warnings of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from socialpub import platforms
from socialpub.base.errors import rule_error
from socialpub.base.runtime import DAY_MS
from socialpub.domain.accounts import accounts
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.posts.targets import ResolvedTarget
from socialpub.domain.schemas.errors import RepeatedText
from socialpub.domain.schemas.posts import BatchRequest
from socialpub.platforms.contract import PostingCap, PublishWarning
from socialpub.platforms.kit.rule_catalog import build_warning
from socialpub.store.engine import sql
from socialpub.store.queries import acceptance

RECENT_MAX = 1000  # posts counted for a rule that needs the number
CAP_WARNING_RATIO = (4, 5)  # warn from four fifths of a cap


class PostHistory(NamedTuple):
    """History of each target: newest post with the same text, and its recent posts if needed."""

    before: Sequence[str | None]
    recent: Sequence[int]


def load_history(service: AppContext, targets: Sequence[ResolvedTarget], at_ms: int | None) -> PostHistory:
    """Read the history of each target due at `at_ms` (None: now)."""
    service.recent_posts.load(_list_history_keys(targets))
    due = service.now_ms if at_ms is None else at_ms
    recent = [
        _count_recent(target, due) if platforms.platform(target.platform).needs_recent_posts else 0
        for target in targets
    ]
    return PostHistory(find_repeated(service, targets), recent)


def _list_history_keys(targets: Sequence[ResolvedTarget]) -> Iterator[tuple[str, bool]]:
    """Yield the accounts, and the platforms whose caps are shared by all accounts."""
    for account, platform in {target.account["id"]: target.platform for target in targets}.items():
        yield account, False
        if platforms.platform(platform).shares_caps:
            yield platform, True


def _count_recent(target: ResolvedTarget, due_ms: int) -> int:
    values = (target.account["id"], due_ms - DAY_MS, due_ms, RECENT_MAX)
    return int(sql.fetch_value(acceptance.COUNT_RECENT_POSTS, values))


def find_repeated(service: AppContext, targets: Sequence[ResolvedTarget]) -> list[str | None]:
    """Find for each target the newest post of 24 hours with its text that is or may go out."""
    texts = [(target.account["id"], target.draft.text) for target in targets]
    keys = [sought for sought in dict.fromkeys(texts) if sought[1] and service.recent_posts.may_have(*sought)]
    if not keys:
        return [None] * len(targets)
    now = service.now_ms
    history = sql.fetch_value(acceptance.FIND_DUPLICATES, (sql.dump_json(keys), now - DAY_MS, now))
    found: dict[tuple[str, str], str | None] = dict(zip(keys, sql.load_json(history), strict=True))
    return [found.get(sought) for sought in texts]


def build_warnings(
    service: AppContext,
    targets: Sequence[ResolvedTarget],
    history: PostHistory,
    at_ms: int | None,
    names: Sequence[str],
) -> list[tuple[PublishWarning, ...]]:
    """Warn per target: repeated text, cap nearly reached, token expiring before `at_ms`.

    `names`: references to the request's own targets.
    """
    seen: dict[tuple[str, str], str] = {}
    found, due = [], service.now_ms if at_ms is None else at_ms
    for target, before, name in zip(targets, history.before, names, strict=True):
        sought = target.account["id"], target.draft.text
        repeat = seen.setdefault(sought, name)
        if repeat is name:
            repeat = f"post {before}" if before else ""
        cap = _find_near_cap(service, target, due)
        found.append(_build_target_warnings(target, repeat, cap, due, is_scheduled=at_ms is not None))
    return found


def _find_near_cap(service: AppContext, target: ResolvedTarget, due_ms: int) -> PostingCap | None:
    """Return the first cap that is nearly reached."""
    for cap in platforms.platform(target.platform).caps:
        if _is_cap_near(service, target.platform if cap.shared else target.account["id"], cap, due_ms):
            return cap
    return None


def _build_target_warnings(
    target: ResolvedTarget, repeat: str, cap: PostingCap | None, due_ms: int, *, is_scheduled: bool
) -> tuple[PublishWarning, ...]:
    """Build the warnings. `repeat`: reference to the earlier text, or ""."""
    found: tuple[PublishWarning, ...] = ()
    if repeat and target.draft.text:
        found = (build_warning("duplicate_content", f"See {repeat}."),)
    if cap is not None:
        limit = f"The limit is {cap.posts:,} in {_format_span(cap.seconds)}."
        found += (build_warning("daily_cap_near", limit),)
    if is_scheduled and accounts.is_ending_before(target.account, due_ms):
        found += (build_warning("token_expires_before_schedule", "Reconnect it before then."),)
    return found


def should_refuse_duplicates(service: AppContext, request: BatchRequest) -> bool:
    """Return whether the request, or by default the server, refuses repeated texts."""
    if request.on_duplicate is not None:
        return request.on_duplicate == "refuse"
    return service.runtime.settings.publishing.refuse_duplicates


def check_duplicates(targets: Sequence[ResolvedTarget], before: Sequence[str | None]) -> None:
    """Raise ApiError `post.duplicate` for texts in `before` or repeated within the request.

    Decisive in the transaction that writes the posts.
    """
    if found := _list_repeats(targets, before):
        raise rule_error("post.duplicate", _describe_repeat(found[0]), platform_response=found)


def _list_repeats(targets: Sequence[ResolvedTarget], before: Sequence[str | None]) -> list[RepeatedText]:
    """List the targets with repeated texts, with references to the earlier ones."""
    first: dict[tuple[str, str], ResolvedTarget] = {}
    found: list[RepeatedText] = []
    for target, post in zip(targets, before, strict=True):
        if not target.draft.text:
            continue
        here: RepeatedText = {
            "targetIndex": target.position,
            "accountId": target.account["id"],
            "platform": target.platform,
        }
        if target.piece:
            here["threadPosition"] = target.piece
        repeat = first.setdefault((target.account["id"], target.draft.text), target)
        if repeat is not target:
            found.append({**here, "sameAsTarget": repeat.position})
        elif post is not None:
            found.append({**here, "postId": post})
    return found


def _describe_repeat(repeat: RepeatedText) -> str:
    where = f"post {repeat['postId']}" if "postId" in repeat else f"target {repeat['sameAsTarget']} of this request"
    piece = f", piece {repeat['threadPosition']} of its thread" if "threadPosition" in repeat else ""
    target = f"Target {repeat['targetIndex']}{piece}"
    return f"{target}: the account {repeat['accountId']} has this text already, see {where}."


def _is_cap_near(service: AppContext, name: str, cap: PostingCap, at_ms: int) -> bool:
    """Return whether the posts up to `at_ms` nearly reach the cap. `name`: account or platform."""
    threshold = -(-cap.posts * CAP_WARNING_RATIO[0] // CAP_WARNING_RATIO[1]) - 1
    return service.recent_posts.has_as_many(name, at_ms - cap.seconds * 1000, at_ms, threshold)


def _format_span(seconds: int) -> str:
    return {900: "15 minutes", 3600: "an hour", 86400: "24 hours"}[seconds]
