"""Container flow of Instagram and Threads: create containers, poll, publish, settle.

Containers are invisible and expire after a day, so creating one is repeatable; but once one may have been published,
only that one is polled and published again, never another. Its status lacks the post's id, which is then found in the
account's own list by exact match. Sources: developers.facebook.com/docs/threads/troubleshooting and
…/instagram-platform/content-publishing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import (
    NO_BODY,
    UNNAMED,
    Absent,
    DraftMedia,
    Json,
    Pending,
    Published,
    Ready,
    Replies,
    Unknown,
    Upstream,
    Verdict,
)
from socialpub.platforms.kit.api_errors import to_address, to_count, to_record, to_text
from socialpub.platforms.kit.rule_catalog import build_warning
from socialpub.platforms.kit.text import normalize_copy
from socialpub.platforms.meta.graph import AUTH, GraphApi, find_edge, list_data, list_recent

Form = dict[str, str]
FIRST_WAIT, GROWTH, LONGEST_WAIT = 1.0, 1.6, 30.0
MISSES_MAX = 3  # tolerated consecutive failures
REBUILDS_MAX = 1
MISS_WAIT = 5.0
QUOTA_WARNING_SHARE = 0.8  # of the quota: warn from here on
GONE = Verdict(Outcome.NOT_SENT, "platform_unavailable", prepare_again=True)
CONTAINER_REPLIES: Replies = {
    # The container is checked for publication, and the post looked up in the account's list.
    ("publish", 200, NO_BODY): UNNAMED,
    # It does not exist, or not any more.
    ("status", 400, "100"): GONE,
    ("status", 404, None): GONE,
}
STEPS = {
    "make": "accept the content",
    "status": "report the progress of the content",
    "publish": "publish the post",
    "look": "show the post",
    "settle": "list the posts",
    "identify": "identify the account",
}
"""Verb of each step."""


@dataclass(frozen=True)
class ContainerFlow:
    """Names of the flow's steps on one platform. `again`: errors that are retried once."""

    graph: GraphApi
    make: str  # edge of the account: creates a container
    publish: str  # edge of the account: publishes one
    limit: str  # edge of the account: used part of the daily quota
    status: str  # field of a container
    detail: str  # field with the reason of a failure
    posts: str  # edge of the account: its posts
    text: str  # field of a post
    post_fields: str
    page: Callable[[Upstream, Json], str | None]  # public address of a post without permalink
    again: frozenset[str]
    pause: float = 0.0  # seconds between finished and publishing
    quota_fields: str = "quota_usage,config"


@dataclass(frozen=True)
class ContainerPlan:
    """Containers to create: one per item, the carousel around them, and the plan."""

    pieces: tuple[Form, ...]
    whole: Form | None  # without `children`; None: the only piece is the post
    plan: Json  # text, types and since, to find the post
    patience: float


@dataclass(frozen=True)
class ContainerProgress:
    """Progress kept between calls of `prepare`."""

    pieces: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)  # of the pieces
    whole: str = ""
    waited: float = 0.0
    wait: float = FIRST_WAIT
    misses: int = 0
    rebuilt: int = 0
    paused: bool = False
    near: str = ""

    def later(self, seconds: float) -> Pending:
        return Pending(asdict(self), seconds)


def find_patience(items: Sequence[DraftMedia]) -> float:
    """Return how many seconds the platform may take to process these items."""
    return 900.0 if any(item.kind == "video" for item in items) else 300.0


# --- Prepare -------------------------------------------------------------------------------------------------------


def prepare(flow: ContainerFlow, up: Upstream, container_plan: ContainerPlan, saved: Json | None) -> Ready | Pending:
    """Create missing containers or poll existing ones; `Pending` until the last is finished."""
    state = ContainerProgress(**saved) if saved else ContainerProgress(near=_quota(flow, up))
    run = _PrepareStep(flow, up, container_plan, state)
    if len(state.pieces) < len(container_plan.pieces):
        return run.make_pieces()
    if state.whole or container_plan.whole is None:
        return run.poll_whole()
    return run.poll_pieces() if len(state.done) < len(state.pieces) else run.make_whole(state)


def _quota(flow: ContainerFlow, up: Upstream) -> str:
    """Return a sentence if the daily quota is nearly used. Raises ApiError if it is used up.

    An unreadable quota does not block: making the container tells what is wrong.
    """
    graph = flow.graph
    try:
        reply = graph.ask(up, "GET", find_edge(up, flow.limit), params={"fields": flow.quota_fields})
    except ApiError:
        return ""
    used, total = _used(next(iter(list_data(reply)), {}), flow.quota_fields)
    if total and used >= total:
        found = f"It has published {used} of {total}."
        raise graph.build_violation(
            up, "account.daily_cap", Outcome.REJECTED, found, {"status": 200, "body": reply.record()}
        )
    return f"It has used {used} of {total} posts of 24 hours." if total and used >= QUOTA_WARNING_SHARE * total else ""


def _used(row: Json, fields: str) -> tuple[int, int]:
    usage, config = fields.split(",")
    used, total = to_count(row.get(usage)), to_count(to_record(row.get(config)).get("quota_total"))
    return (0, 0) if used is None or total is None else (used, total)


@dataclass(frozen=True)
class _PrepareStep:
    """One call of `prepare`."""

    flow: ContainerFlow
    up: Upstream
    container_plan: ContainerPlan
    state: ContainerProgress

    @property
    def graph(self) -> GraphApi:
        return self.flow.graph

    # --- Create ---

    def make_pieces(self) -> Pending:
        """Create all missing containers, keeping those created before a failure."""
        made = self.state
        for form in self.container_plan.pieces[len(made.pieces) :]:
            found = self._create(form, made)
            if isinstance(found, Pending):
                return found
            made = replace(made, pieces=[*made.pieces, found], misses=0)
        return made.later(made.wait)

    def make_whole(self, state: ContainerProgress) -> Pending:
        assert self.container_plan.whole is not None, "only carousels have a container around their items"
        found = self._create(self.container_plan.whole | {"children": ",".join(state.pieces)}, state)
        if isinstance(found, Pending):
            return found
        fresh = replace(state, whole=found, wait=FIRST_WAIT, misses=0)
        return fresh.later(fresh.wait)

    def _create(self, form: Form, state: ContainerProgress) -> str | Pending:
        """Create a container: its id, or a wait before the retry. Raises ApiError without retries.

        A rate limit ends the attempt, but not before `state` is saved.
        """
        try:
            reply = self.graph.ask(self.up, "POST", find_edge(self.up, self.flow.make), data=form)
            if reply.is_success:
                return self.graph.id_of(self.up, "make", reply)
            error = self.graph.refused(self.up, "make", reply)
            once = self.graph.name("make", reply) in self.flow.again
        except ApiError as lost:
            error, once = lost, False
        limit = MISSES_MAX if error.code == "platform_unavailable" else int(once)
        if state.misses >= limit or (error.outcome is Outcome.THROTTLED and state is self.state):
            raise error
        return replace(state, misses=state.misses + 1).later(MISS_WAIT)

    # --- Poll ---

    def poll_pieces(self) -> Pending:
        """Poll the unfinished items; create the carousel when all are finished."""
        done = list(self.state.done)
        for piece in self.state.pieces:
            if piece in done:
                continue
            found = self._poll_status(piece)
            if isinstance(found, Pending):
                return found
            if found == "FINISHED":
                done.append(piece)
        state = replace(self.state, done=done, misses=0)
        return self.make_whole(state) if len(done) == len(state.pieces) else self._wait(state)

    def poll_whole(self) -> Ready | Pending:
        """Poll the post's container; PUBLISHED means that an earlier attempt succeeded."""
        container = self.state.whole or self.state.pieces[0]
        found = self._poll_status(container)
        if isinstance(found, Pending):
            return found
        if found == "PUBLISHED":
            return self._ready(container, published=True)
        state = replace(self.state, misses=0)
        if found != "FINISHED":
            return self._wait(state)
        if self.flow.pause and not state.paused:
            return replace(state, paused=True).later(self.flow.pause)
        return self._ready(container)

    def _ready(self, container: str, **more: Any) -> Ready:
        warnings = (build_warning("daily_cap_near", self.state.near),) if self.state.near else ()
        return Ready(self.container_plan.plan | {"container": container} | more, warnings)

    def _poll_status(self, container: str) -> str | Pending:
        """Poll a container's status; wait if it is unreadable or must be recreated."""
        try:
            reply = fetch_status(self.flow, self.up, container)
        except ApiError as error:
            if error.code == AUTH or error.outcome is Outcome.THROTTLED or self.state.misses >= MISSES_MAX:
                raise
            return replace(self.state, misses=self.state.misses + 1).later(MISS_WAIT)
        status = to_text(reply.record().get(self.flow.status))
        return self._handle_failure(reply, status) if status in ("ERROR", "EXPIRED") else status

    def _handle_failure(self, reply: UpstreamResponse, status: str) -> Pending:
        """Handle a failed container: recreate everything once, where that may help."""
        why = _error_name(self.flow, reply)
        if (status == "EXPIRED" or why in self.flow.again) and self.state.rebuilt < REBUILDS_MAX:
            return ContainerProgress(rebuilt=self.state.rebuilt + 1, near=self.state.near).later(MISS_WAIT)
        said = {"status": reply.status_code, "body": reply.record()}
        if status == "EXPIRED":
            error = self.graph.build_violation(self.up, "container.expired", Outcome.NOT_SENT, said=said)
        else:
            error = self._broken(why, said, to_text(reply.record().get(self.flow.detail)))
        raise replace(error, prepare_again=True)

    def _broken(self, why: str, said: Json, words: str) -> ApiError:
        rows = self.graph.replies
        found = rows.get(("container", 200, why), rows["container", 200, None])
        if found.rule:
            return self.graph.build_violation(self.up, found.rule.partition(".")[2], found.outcome, words[:300], said)
        label = self.graph.platform.label
        return self.graph.build_unavailable(
            self.up, f"{label} could not use the media: {words[:300]}", found.outcome, said
        )

    def _wait(self, state: ContainerProgress) -> Pending:
        if state.waited + state.wait > self.container_plan.patience:
            minutes = int(self.container_plan.patience // 60)
            message = f"{self.graph.platform.label} has not finished processing the media within {minutes} minutes."
            raise self.graph.build_unavailable(self.up, message, Outcome.NOT_SENT)
        longer = min(state.wait * GROWTH, LONGEST_WAIT)
        return replace(state, waited=state.waited + state.wait, wait=longer).later(state.wait)


def fetch_status(flow: ContainerFlow, up: Upstream, container: str) -> UpstreamResponse:
    """Fetch a container's status. Raises ApiError if it has none."""
    fields = f"{flow.status},{flow.detail}"
    reply = flow.graph.call(up, "status", "GET", container, params={"fields": fields})
    if not to_text(reply.record().get(flow.status)):
        raise flow.graph.build_unusable(up, "status", reply)
    return reply


def _error_name(flow: ContainerFlow, reply: UpstreamResponse) -> str:
    """Name a container's error: Threads gives a word, Instagram a sentence with a number."""
    words = to_text(reply.record().get(flow.detail))
    number = re.search(r"\b(22\d{5})\b", words)
    return number[1] if number else words


# --- Publish -------------------------------------------------------------------------------------------------------


def send(flow: ContainerFlow, up: Upstream, plan: Json) -> Published:
    """Publish the container, unless it is already published."""
    if plan.get("published"):
        return _find_bound(flow, up, plan, plan["since"])
    path = find_edge(up, flow.publish)
    reply = flow.graph.call(up, "publish", "POST", path, mutating=True, data={"creation_id": plan["container"]})
    post = flow.graph.id_of(up, "publish", reply, mutating=True)
    return _to_published(flow, up, _details(flow, up, post) | {"id": post})


def settle(flow: ContainerFlow, up: Upstream, plan: Json, since_ms: int) -> Published | Absent | Unknown:
    """Check the container, and find the post if it must exist."""
    try:
        reply = fetch_status(flow, up, plan["container"])
    except ApiError as error:
        # Reading the status sometimes fails for a published container (Graph 100/33): the post itself still tells.
        return _find_by_text(flow, up, plan, since_ms) or Unknown(
            {"error": error.message, "answer": error.platform_response}
        )
    status, evidence = to_text(reply.record().get(flow.status)), {"status": reply.status_code, "body": reply.record()}
    if status == "PUBLISHED":
        return _find_bound(flow, up, plan, since_ms)
    if status == "FINISHED":
        return Absent(evidence)
    if status in ("ERROR", "EXPIRED"):
        return _find_by_text(flow, up, plan, since_ms) or Unknown(evidence, final=True)
    return Unknown(evidence)


def _find_bound(flow: ContainerFlow, up: Upstream, plan: Json, since_ms: int) -> Published:
    """Find the post of a published container; without an address if it is ambiguous."""
    return _find_post(flow, up, plan, since_ms) or Published(f"container:{plan['container']}")


def _find_by_text(flow: ContainerFlow, up: Upstream, plan: Json, since_ms: int) -> Published | None:
    """Find the post of a container that does not say whether it is published.

    Without text any other post of its kind (a story, a bare image) would be taken for it.
    """
    return _find_post(flow, up, plan, since_ms) if normalize_copy(plan["text"]) else None


def _find_post(flow: ContainerFlow, up: Upstream, plan: Json, since_ms: int) -> Published | None:
    """Find our post: same account, text and kind, recent, and not another post of ours."""
    return _find_single(flow, up, plan, since_ms, lambda post: _is_ours(flow, up, plan, post))


def find_id(flow: ContainerFlow, up: Upstream, plan: Json, code: str | None) -> str | None:
    """Find the id of a post that was published with this plan.

    `code`: the one in its address, if known.
    """

    def is_it(post: Json) -> bool:
        return _is_ours(flow, up, plan, post) if code is None else post.get("shortcode") == code

    found = _find_single(flow, up, plan, plan["since"], is_it)
    return found.remote_id if found else None


def _find_single(
    flow: ContainerFlow, up: Upstream, plan: Json, since_ms: int, is_it: Callable[[Json], bool]
) -> Published | None:
    """Find the only matching post of the plan's list.

    None if there are several, or the list is unreadable.
    """
    edge = find_edge(up, plan.get("list", flow.posts))
    try:
        listed = list_recent(flow.graph, up, edge, flow.post_fields, "timestamp", since_ms)
        found = [post for post in listed.posts if is_it(post)]
        return _to_published(flow, up, found[0]) if len(found) == 1 and listed.complete else None
    except ApiError:
        return None


def _is_ours(flow: ContainerFlow, up: Upstream, plan: Json, post: Json) -> bool:
    id = to_text(post.get("id"))
    return (
        bool(id)
        and post.get("media_type") in plan["types"]
        and _is_same(plan["text"], post.get(flow.text))
        and id not in up.bound
    )


def _is_same(sent: str, got: object) -> bool:
    # Instagram removes the @ from captions that it shows to weaker roles.
    return normalize_copy(sent).replace("@", "") == normalize_copy(got).replace("@", "")


def _details(flow: ContainerFlow, up: Upstream, post: str) -> Json:
    """Read details of a new post; empty if unreadable, since it is published anyway."""
    try:
        return flow.graph.call(up, "look", "GET", post, params={"fields": "permalink,shortcode"}).record()
    except ApiError:
        return {}


def _to_published(flow: ContainerFlow, up: Upstream, post: Json) -> Published:
    url = to_address(post.get("permalink")) or flow.page(up, post)
    return Published(to_text(post.get("id")), url or None, None, url or None)


def build_verdicts(names: Sequence[str], found: Verdict, step: str = "*") -> dict[tuple[str, int, str | None], Verdict]:
    """Build rows of REPLIES for several Graph error names."""
    return {(step, 200 if step == "container" else 400, name): found for name in names}
