"""Containers: created, processed, published once, expired after a day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.forms import fields
from socialpub.simulator.ledger import Publication, PublishedMedia
from socialpub.simulator.meta.graph import (
    DAY_SECONDS,
    People,
    Person,
    listed,
    missing,
    parse_field_names,
    refuse,
    shown,
)
from socialpub.simulator.state import SimulatorState

URLS = ("image_url", "video_url", "cover_url")
REPLY_QUOTA = 1000


@dataclass
class Container:
    """Container: the request and its progress.

    `error`: how its processing ends, "" for success.
    """

    id: str
    owner: str
    form: Mapping[str, str]
    made_ms: int
    ready_ms: int
    kind: str  # kind of the future post
    media: tuple[PublishedMedia, ...] = ()
    error: str = ""
    published: bool = False

    def status(self, now_ms: int) -> str:
        if self.published:
            return "PUBLISHED"
        if now_ms - self.made_ms >= DAY_SECONDS * 1000:
            return "EXPIRED"
        if now_ms < self.ready_ms:
            return "IN_PROGRESS"
        return "ERROR" if self.error else "FINISHED"


@dataclass
class Post:
    id: str
    owner: str
    at_ms: int
    is_reply: bool
    node: dict[str, Any]

    @property
    def is_story(self) -> bool:
        return self.node.get("media_product_type") == "STORY"


@dataclass(frozen=True)
class ContainerQuirks:
    """Differences between platforms. `check` returns a form's post kind and media, or refuses."""

    name: str
    make: str  # edge names
    publish: str
    limit: str
    posts: str
    scope: str  # scope for publishing
    check: Callable[[Containers, Call, Mapping[str, str]], tuple[str, tuple[PublishedMedia, ...], str]]
    status: Callable[[Container, str], dict[str, Any]]  # fields of a container
    node: Callable[[Container, Person, str, str, int], dict[str, Any]]  # fields of a post
    unready: Callable[[], RefusedError]
    usage: Callable[[int, int, int], dict[str, Any]]  # posts, replies, quota → fields
    me: Callable[[Person], dict[str, Any]]
    reply_scope: str = ""  # scope for the quota of replies


@dataclass
class Containers:
    """Containers and posts of one platform's accounts.

    For tests: `failing` holds errors of the next containers, `early` how many publishing calls find a finished
    container not ready yet, `quota` the posts per day.
    """

    lab: SimulatorState
    people: People
    ways: ContainerQuirks
    quota: int = 250
    failing: list[str] = field(default_factory=list)
    early: int = 0
    made: dict[str, Container] = field(default_factory=dict)
    posts: dict[str, Post] = field(default_factory=dict)
    _count: int = 0

    def __post_init__(self) -> None:
        self._usual_quota = self.quota

    def operations(self, version: str) -> tuple[Operation, ...]:
        ways = self.ways
        home = f"/{version}/<user>"
        return (
            Operation("me", ("GET",), f"/{version}/me", self.who),
            Operation("containers.create", ("POST",), f"{home}/{ways.make}", self.create, _addresses),
            Operation("containers.publish", ("POST",), f"{home}/{ways.publish}", self.publish),
            Operation("quota", ("GET",), f"{home}/{ways.limit}", self.usage),
            Operation("posts.list", ("GET",), f"{home}/{ways.posts}", lambda call: self.page(call, replies=False)),
            Operation("node", ("GET",), f"/{version}/<node>", self.read),
        )

    def reset(self) -> None:
        for store in (self.made, self.posts, self.failing):
            store.clear()
        self.early = 0
        self.quota = self._usual_quota

    # --- Calls ---

    def who(self, call: Call) -> FakeResponse:
        person = self.people.caller(call)
        return FakeResponse(200, shown(self.ways.me(person), parse_field_names(call, "id")))

    def create(self, call: Call) -> FakeResponse:
        person = self.people.caller(call, self.ways.scope)
        form = fields(call)
        kind, media, error = self.ways.check(self, call, form)
        now = self.now
        error = self.failing.pop(0) if self.failing else error
        container = Container(
            self.new_id(), person.id, form, now, now + self.lab.settings.processing_ms, kind, media, error
        )
        self.made[container.id] = container
        return FakeResponse(200, {"id": container.id})

    def publish(self, call: Call) -> FakeResponse:
        """Publish a container."""
        person = self.people.caller(call, self.ways.scope)
        container = self.own(person, fields(call).get("creation_id", ""))
        if container.status(self.now) == "PUBLISHED":
            raise refuse(100, "(#100) The container has been published already.")
        if container.status(self.now) != "FINISHED" or self.early > 0:
            self.early = max(self.early - 1, 0)
            raise self.ways.unready()
        is_reply = _is_reply(container)
        if self._recent(person, is_reply) >= (REPLY_QUOTA if is_reply else self.quota):
            raise refuse(9, "Application request limit reached", 2207042, user="You reached the maximum of posts.")
        container.published = True
        return FakeResponse(200, {"id": self._post(person, container).id})

    def usage(self, call: Call) -> FakeResponse:
        asked = parse_field_names(call, "quota_usage")
        asks_replies = any(name.startswith("reply_") for name in asked)
        person = self.people.caller(call, self.ways.reply_scope if asks_replies else "")
        node = {"id": "", **self.ways.usage(self._recent(person, False), self._recent(person, True), self.quota)}
        row = shown(node, asked)
        row.pop("id")
        return FakeResponse(200, {"data": [row]})

    def page(self, call: Call, *, replies: bool, stories: bool = False) -> FakeResponse:
        """List the caller's posts, newest first."""
        person = self.people.caller(call)
        mine = [
            post
            for post in self.posts.values()
            if (post.owner, post.is_reply, post.is_story) == (person.id, replies, stories)
        ]
        return listed(call, [(post.at_ms, post.node) for post in mine], parse_field_names(call, "id"), self.lab)

    def read(self, call: Call) -> FakeResponse:
        """Return a container or a post."""
        account = self.people.tokens.access(call).account
        id = call.parts["node"]
        container, post = self.made.get(id), self.posts.get(id)
        if container is not None and container.owner == account:
            return FakeResponse(
                200, shown(self.ways.status(container, container.status(self.now)), parse_field_names(call, "id"))
            )
        if post is not None and post.owner == account:
            return FakeResponse(200, shown(post.node, parse_field_names(call, "id")))
        raise missing(id)

    def delete(self, call: Call) -> FakeResponse:
        """Delete a post."""
        account = self.people.tokens.access(call, f"{self.ways.name}_delete").account
        post = self.posts.get(call.parts["node"])
        if post is None or post.owner != account:
            raise missing(call.parts["node"])
        del self.posts[post.id]
        self.lab.ledger.write(Publication(self.ways.name, account, "delete", post.id))
        return FakeResponse(200, {"success": True, "deleted_id": post.id})

    # --- Tools ---

    @property
    def now(self) -> int:
        return self.lab.clock.now_ms()

    def new_id(self) -> str:
        self._count += 1
        return str(17_900_000_000_000_000 + 7 * self._count)

    def own(self, person: Person, id: str) -> Container:
        container = self.made.get(id)
        if container is None or container.owner != person.id:
            raise self.ways.unready()
        return container

    def children(self, call: Call, form: Mapping[str, str], low: int, high: int) -> list[Container]:
        """Return the finished items of a carousel, or refuse."""
        person = self.people.caller(call)
        found = [self.own(person, id) for id in filter(None, form.get("children", "").split(","))]
        if not low <= len(found) <= high:
            raise refuse(100, f"(#100) A carousel has {low} to {high} items.", 2207028)
        if any(child.form.get("is_carousel_item") != "true" for child in found):
            raise refuse(100, "(#100) Every child is made with is_carousel_item.")
        if any(child.status(self.now) != "FINISHED" for child in found):
            raise self.ways.unready()
        return found

    def _recent(self, person: Person, replies: bool) -> int:
        since = self.now - DAY_SECONDS * 1000
        mine = (post for post in self.posts.values() if post.owner == person.id and post.is_reply == replies)
        return sum(post.at_ms > since for post in mine)

    def _post(self, person: Person, container: Container) -> Post:
        id, code = self.new_id(), f"C{self._count:010d}"
        node = self.ways.node(container, person, id, code, self.now)
        is_reply = _is_reply(container)
        post = self.posts[id] = Post(id, person.id, self.now, is_reply, node)
        self.lab.ledger.write(
            Publication(
                self.ways.name,
                person.id,
                "comment" if is_reply else "post",
                id,
                node["permalink"],
                container.form.get("text") or container.form.get("caption"),
                container.media,
                {name: value for name, value in container.form.items() if name != "access_token"},
            )
        )
        return post


def _is_reply(container: Container) -> bool:
    return bool(container.form.get("reply_to_id"))


def _addresses(call: Call) -> Iterable[str]:
    asked = fields(call)
    return [asked[name] for name in URLS if asked.get(name, "").startswith(("http://", "https://"))]
