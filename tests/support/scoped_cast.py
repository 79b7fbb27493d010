"""A key for each scope, things of own and foreign accounts, and calls by chance."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import UNLIMITED, Person, running_server
from tests.support.chat_servers import add_channel
from tests.support.generated_calls import CallGenerator, KeyedOperation, find_keyed_operations, replace_fields
from tests.support.openapi_document import DOCUMENT
from tests.support.post_drafts import new_draft
from tests.support.request_cast import RequestCast
from tests.support.resource_requests import PNG
from tests.support.soak.soak_world import wait_for
from tests.support.webhook_endpoints import list_deliveries, register_endpoint
from tests.support.webhook_receiver import running_receiver

SCOPES = ("posts:read", "posts:plan", "posts:write", "media", "accounts:read", "webhooks")
PLANNING = ("posts:plan", "accounts:read", "media")
OPERATIONS = find_keyed_operations(DOCUMENT)
NOBODY = "http://127.0.0.1:1/"


@dataclass
class ScopedCast(RequestCast):
    """Alice with two accounts, and Charlie of another organization; a key for each scope, with a list or without."""

    first: str
    second: str

    def __post_init__(self) -> None:
        self.makers = {
            "own": self.alice,
            "foreign": self.charlie,
            "listed": self.server.limited(self.alice, accounts=[self.first]),
            "unlisted": self.server.limited(self.alice, accounts=[self.second]),
        }
        self.accounts = {"own": self.first, "foreign": self.charlie.bluesky, "listed": self.first}
        self.accounts["unlisted"] = self.second
        whole = {scope: self.server.limited(self.alice, scopes=[scope]) for scope in SCOPES}
        listed = {scope: self.server.limited(self.alice, scopes=[scope], accounts=[self.first]) for scope in SCOPES}
        self.callers = {"own": whole, "foreign": whole, "listed": listed, "unlisted": listed}

    def make(self, resource: str, kind: str) -> str:
        """The id of something new of the account."""
        return MAKERS[resource](self, self.makers[kind], self.accounts[kind])

    def send(self, operation: KeyedOperation, kind: str, scope: str, id_: str) -> httpx.Response:
        fields = {"accountId": self.accounts[kind], "profileId": self.makers[kind].profile, "scheduledAt": self.soon()}
        fields |= {"url": NOBODY, "media": []}
        body = replace_fields(operation.bodies[0], fields) if operation.bodies else None
        upload = {"file": ("a.png", PNG)} if operation.is_upload else None
        path = re.sub(r"\{\w+\}", id_, operation.path)
        headers = {"If-Match": '"x"'} if operation.resource == "drafts" else {}
        return self.callers[kind][scope].api.request(operation.method, path, json=body, files=upload, headers=headers)


def _batch(cast: ScopedCast, maker: Person, account: str) -> Any:
    answer = maker.api.publish({"targets": [{"accountId": account}], "text": "hello", "scheduledAt": cast.soon()})
    assert answer.status_code == 202, answer.text
    return answer.json()


def _post(cast: ScopedCast, maker: Person, account: str) -> str:
    return str(_batch(cast, maker, account)["results"][0]["postId"])


def _draft(cast: ScopedCast, maker: Person, account: str) -> str:
    id_ = new_draft(maker.api, targets=[{"accountId": account}], text="hello", scheduledAt=cast.soon())["id"]
    assert maker.api.post(f"/v1/drafts/{id_}/link").status_code == 200
    return str(id_)


def _media(cast: ScopedCast, maker: Person, account: str) -> str:
    return str(maker.api.post("/v1/media", files={"file": ("a.png", PNG)}).json()["id"])


def _endpoint(cast: ScopedCast, maker: Person, account: str) -> str:
    return str(register_endpoint(maker, NOBODY, events=["billing.recovered"])["id"])


def _channel(cast: ScopedCast, maker: Person, account: str) -> str:
    return str(add_channel(maker, {"kind": "slack", "url": NOBODY})["id"])


def _delivery(cast: ScopedCast, maker: Person, account: str) -> str:
    """One that has ended, of an endpoint that gets no more, so that nothing changes by itself."""
    with running_receiver() as receiver:
        endpoint = register_endpoint(maker, receiver.url)["id"]
        _post(cast, maker, account)
        own = {"endpointId": endpoint}
        assert wait_for(lambda: {row["status"] for row in list_deliveries(maker, **own)} == {"succeeded"}, 30)
    assert maker.api.patch(f"/v1/webhook-endpoints/{endpoint}", json={"active": False}).status_code == 200
    return str(list_deliveries(maker, **own)[0]["id"])


MAKERS: dict[str, Callable[[ScopedCast, Person, str], str]] = {
    "posts": _post,
    "batches": lambda cast, maker, account: str(_batch(cast, maker, account)["id"]),
    "drafts": _draft,
    "accounts": lambda cast, maker, account: account,
    "media": _media,
    "webhook-endpoints": _endpoint,
    "webhook-deliveries": _delivery,
    "notification-channels": _channel,
}
"""By the first word of a path with `{id}`, what makes such a thing of an account."""


NAMED = {operation.resource for operation in OPERATIONS if "{id}" in operation.path}


@contextlib.contextmanager
def running_cast(home: Path, lab_thread: SimulatorThread) -> Iterator[ScopedCast]:
    """The cast on a server that slows nobody down."""
    with running_server(home, lab_thread, limits=UNLIMITED) as server:
        alice = server.person("Alice")
        second, first = (str(server.connect_bluesky(alice, name)["id"]) for name in ("second", "bluesky"))
        yield ScopedCast(server, alice, first, second)


def generate(cast: ScopedCast, person: Person, count: int, seed: int) -> list[httpx.Response]:
    """So many calls by chance, to accounts and things that are there; the times in them have come when this returns."""
    calls = CallGenerator(OPERATIONS, random.Random(seed), [cast.first, cast.second], lambda: cast.soon(60))
    calls.ids += [cast.make(resource, "own") for resource in sorted(NAMED)]
    answers = list(calls.make(person.api, count))
    cast.server.skip(61)
    return answers


def check_planning(cast: ScopedCast, count: int, seed: int) -> None:
    """With a planning key, neither now nor later: the log has no other row, the platforms were given nothing."""
    planner = cast.server.limited(cast.alice, scopes=list(PLANNING))
    ledger, posts = cast.server.lab.lab.ledger.entries(), cast.server.rows()
    answers = generate(cast, planner, count, seed)
    assert {200, 403} <= {answer.status_code for answer in answers}
    now = cast.server.rows()
    assert now[: len(posts)] == posts
    added = now[len(posts) :]  # by the makers, for the calls to find
    assert {(row["text"], row["status"]) for row in added} == {("hello", "queued")}
    assert cast.server.lab.lab.ledger.entries() == ledger
