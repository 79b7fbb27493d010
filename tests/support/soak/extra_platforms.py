"""Test-only platforms: `crate` publishes through containers, `plain` has no key.

Each is a minimal fake for the simulator and a minimal connector for the program. `register()` adds both to the tables
of this process; the package does not contain them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from socialpub import platforms
from socialpub.base.errors import Outcome
from socialpub.platforms.contract import (
    Absent,
    ConnectorAccount,
    Draft,
    Json,
    Pending,
    Platform,
    Published,
    Ready,
    Replies,
    SendClass,
    TextCounter,
    Tokens,
    Unknown,
    Upstream,
    Verdict,
    build_error,
    classify,
)
from socialpub.simulator import registry
from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.ledger import Publication
from socialpub.simulator.state import SimulatorState

SKEW_MS = 120_000
PAGE = 20
OFTEN = SendClass("container", checks=(0.5, 1, 2, 4, 8, 16, 32, 45, 60, 75, 90), resends=3, answered_resends=3)
NEVER = SendClass("none", checks=(0.5, 1, 2, 4), resends=0, answered_resends=0)


# --- The fakes -----------------------------------------------------------------------------------------------------


@dataclass
class ExtraFake:
    """What both fakes share: accounts are tokens, refusals are `{"error": name}`."""

    lab: SimulatorState
    name: str
    max_body: int = 1024 * 1024
    ids: tuple[str, ...] = ("id",)

    def __post_init__(self) -> None:
        self.numbers = itertools.count(1)
        self.reset()

    def reset(self) -> None:
        self.posts: dict[str, tuple[str, str, int]] = {}  # id → account, text, made at
        self.containers: dict[str, dict[str, Any]] = {}

    def add_account(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        return {"id": str(wanted["id"]), "accessToken": f"canary-token-{self.name}-{wanted['id']}"}

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        raise ValueError("tokens of this platform do not end")

    def refusal(self, status: int, retry_after: int | None) -> FakeResponse:
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        return FakeResponse(status, {"error": f"Fault{status}"}, headers)

    def account(self, call: Call) -> str:
        token = call.headers.get("authorization", "")
        prefix = f"Bearer canary-token-{self.name}-"
        if not token.startswith(prefix):
            raise RefusedError(FakeResponse(401, {"error": "Unauthorized"}))
        return token.removeprefix(prefix)

    def make(self, account: str, text: str) -> str:
        remote_id = f"{self.name}-{next(self.numbers)}"
        self.posts[remote_id] = account, text, self.lab.clock.now_ms()
        self.lab.ledger.write(Publication(self.name, account, "post", remote_id, text=text))
        return remote_id


class PlainFake(ExtraFake):
    """POST makes a post each time; the list is late and short, as lists are."""

    def operations(self) -> tuple[Operation, ...]:
        return (Operation("post", ("POST",), "/posts", self.post), Operation("list", ("GET",), "/posts", self.list))

    def post(self, call: Call) -> FakeResponse:
        return FakeResponse(201, {"id": self.make(self.account(call), str(call.json()["text"]))})

    def list(self, call: Call) -> FakeResponse:
        """Newest first, `PAGE` of them older than the cursor."""
        account, settings = self.account(call), self.lab.settings
        until = self.lab.clock.now_ms() - settings.list_lag_ms
        mine = [
            {"id": key, "text": text, "made": made}
            for key, (owner, text, made) in reversed(self.posts.items())
            if owner == account and made <= until
        ]
        start, size = int(call.query.get("cursor", ["0"])[0]), settings.list_limit or PAGE
        more = start + size < len(mine)
        return FakeResponse(200, {"posts": mine[start : start + size], "cursor": str(start + size) if more else None})


class CrateFake(ExtraFake):
    """A container is made, asked about, and published once."""

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation("create", ("POST",), "/containers", self.create),
            Operation("publish", ("POST",), "/containers/<container:str>/publish", self.publish),
            Operation("status", ("GET",), "/containers/<container:str>", self.status),
        )

    def create(self, call: Call) -> FakeResponse:
        container = f"container-{next(self.numbers)}"
        self.containers[container] = {"account": self.account(call), "text": call.json()["text"], "post": None}
        return FakeResponse(201, {"id": container})

    def status(self, call: Call) -> FakeResponse:
        found = self._container(call)
        return FakeResponse(200, {"status": "PUBLISHED" if found["post"] else "FINISHED", "post": found["post"]})

    def publish(self, call: Call) -> FakeResponse:
        found = self._container(call)
        if found["post"]:
            raise RefusedError(FakeResponse(400, {"error": "AlreadyPublished"}))
        found["post"] = self.make(found["account"], found["text"])
        return FakeResponse(200, {"id": found["post"]})

    def _container(self, call: Call) -> dict[str, Any]:
        found = self.containers.get(call.parts["container"])
        if found is None or found["account"] != self.account(call):
            raise RefusedError(FakeResponse(404, {"error": "NotFound"}))
        return found


# --- The connectors ------------------------------------------------------------------------------------------------


class NoOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _count(draft: Draft, account: ConnectorAccount) -> TextCounter:
    return TextCounter(len(draft.text), None, "characters")


def _platform(name: str, send_class: SendClass) -> Platform:
    return Platform(name, name.title(), send_class, NoOptions, (), _count, version="1")


@dataclass(frozen=True)
class ExtraConnector:
    PLATFORM: Platform
    REPLIES: Replies

    def refresh(self, up: Upstream, now_ms: int) -> Tokens:
        return up.tokens

    def ask(self, up: Upstream, step: str, method: str, path: str, body: Json | None = None) -> Json:
        """The answer's JSON object; ApiError with the outcome of its row."""
        reply = up.http.request(
            method, up.site.api_base + path, headers={"Authorization": f"Bearer {up.tokens.access}"}, json=body
        )
        found = reply.record()
        if reply.is_success and ((step == "look" and found) or isinstance(found.get("id"), str)):
            return found
        mutating = step in ("send", "publish")
        status = 0 if reply.is_success else reply.status_code  # a success that cannot be read is no success
        row = classify(self.REPLIES, step, status, found.get("error"), mutating=mutating)
        raise build_error(self.PLATFORM, "1", row, reply, f"{self.PLATFORM.label} answered {reply.status_code}.")


_TABLE: Replies = {
    ("*", 401, None): Verdict(Outcome.REJECTED, "platform_auth_failed"),
    ("*", 422, None): Verdict(Outcome.REJECTED, "platform_rejected"),
    ("*", 429, None): Verdict(Outcome.THROTTLED, "platform_unavailable"),
}


class PlainConnector(ExtraConnector):
    """No key: a lost answer is looked for by account and text."""

    def prepare(self, up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending:
        return Ready({"text": draft.text})

    def send(self, up: Upstream, plan: Json) -> Published:
        made = self.ask(up, "send", "POST", "/posts", {"text": plan["text"]})
        return Published(made["id"], uri=made["id"])

    def settle(self, up: Upstream, plan: Json, since_ms: int) -> Published | Absent | Unknown:
        cursor = "0"
        while cursor:
            page = self.ask(up, "look", "GET", f"/posts?cursor={cursor}")
            for post in page["posts"]:
                if post["made"] < since_ms - SKEW_MS:
                    return Absent()
                if post["text"] == plan["text"] and post["id"] not in up.bound:
                    return Published(post["id"], uri=post["id"])
            cursor = page["cursor"]
        return Absent()


class CrateConnector(ExtraConnector):
    """Container: made while preparing, published by its id, asked by its id."""

    def prepare(self, up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending:
        if saved is None:
            made = self.ask(up, "create", "POST", "/containers", {"text": draft.text})
            return Pending({"container": made["id"]}, 0.05)
        return Ready({"container": saved["container"]})

    def send(self, up: Upstream, plan: Json) -> Published:
        made = self.ask(up, "publish", "POST", f"/containers/{plan['container']}/publish")
        return Published(made["id"], uri=made["id"])

    def settle(self, up: Upstream, plan: Json, since_ms: int) -> Published | Absent | Unknown:
        found = self.ask(up, "look", "GET", f"/containers/{plan['container']}")
        if found.get("status") == "PUBLISHED":
            return Published(found["post"], uri=found["post"])
        return Absent(found) if found.get("status") == "FINISHED" else Unknown(found)


CONNECTORS = {
    "crate": CrateConnector(_platform("crate", OFTEN), _TABLE),
    "plain": PlainConnector(_platform("plain", NEVER), _TABLE),
}
FAKES = {"crate": lambda lab: CrateFake(lab, "crate"), "plain": lambda lab: PlainFake(lab, "plain")}


def register() -> None:
    """Let this process know both, in the simulator and in the program."""
    for name, connector in CONNECTORS.items():
        platforms.PLATFORMS[name] = connector.PLATFORM
        platforms.CONNECTORS[name] = connector
    registry.FAKES.update(FAKES)  # type: ignore[attr-defined]


def unregister() -> None:
    for name in CONNECTORS:
        platforms.PLATFORMS.pop(name, None)
        platforms.CONNECTORS.pop(name, None)
        registry.FAKES.pop(name, None)  # type: ignore[attr-defined]
