"""Requests that name one resource, of every endpoint that takes an id."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import httpx

from socialpub.store.schema.models import Post, WebhookDelivery
from tests.support.app_server import Person
from tests.support.chat_servers import CHANNELS, add_channel
from tests.support.post_drafts import PATH as DRAFTS
from tests.support.post_drafts import new_draft
from tests.support.post_outcomes import lost, queued
from tests.support.request_cast import RequestCast
from tests.support.soak.soak_world import wait_for
from tests.support.webhook_endpoints import DELIVERIES, ENDPOINTS, list_deliveries, register_endpoint


@dataclasses.dataclass(frozen=True)
class ResourceRequest:
    """A request that names one resource, and what its owner gets."""

    name: str
    status: int
    send: Callable[[Person, str], httpx.Response]
    make: Callable[[RequestCast, Person], str]
    in_profile: bool = True  # what a key of the whole organization makes belongs to a profile all the same

    def __str__(self) -> str:
        return self.name


def failed(world: RequestCast, person: Person) -> str:
    post = queued(world, person)
    world.server.service.write(lambda tx: Post.update(status="failed").where(Post.id == post).execute()).result()
    return post


def batch(world: RequestCast, person: Person) -> str:
    return str(world.server.rows(Post, id=queued(world, person))[0]["batch"])


def draft(world: RequestCast, person: Person) -> str:
    return str(new_draft(person.api, profileId=person.profile, **to(person.bluesky))["id"])


def linked_draft(world: RequestCast, person: Person) -> str:
    made = draft(world, person)
    assert person.api.post(f"{DRAFTS}/{made}/link").status_code == 200
    return made


def as_seen(person: Person, id_: str) -> dict[str, str]:
    """The header of a client that has just read the draft, if it can."""
    return {"If-Match": person.api.get(f"{DRAFTS}/{id_}").headers.get("ETag", '"0"')}


def account(world: RequestCast, person: Person) -> str:
    return person.bluesky


def picture(world: RequestCast, person: Person) -> str:
    """An upload that belongs to the person's profile."""
    answer = person.api.post("/v1/media", params={"profileId": person.profile}, files={"file": ("a.png", PNG)})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def endpoint(world: RequestCast, person: Person) -> str:
    """An endpoint where nobody listens."""
    return str(register_endpoint(person, "http://127.0.0.1:1/")["id"])


def channel(world: RequestCast, person: Person) -> str:
    """A channel where nobody listens."""
    return str(add_channel(person, {"kind": "slack", "url": "http://127.0.0.1:1/"})["id"])


def delivery(world: RequestCast, person: Person) -> str:
    """A delivery that has ended, so that nothing changes by itself."""
    endpoint(world, person)
    queued(world, person)
    found = str(list_deliveries(person)[0]["id"])
    service, ends = world.server.service, {"status": "failed", "next_attempt_at": None}
    for _ in range(2):  # nothing more is begun; then what was under way has told of itself
        service.write(lambda tx: WebhookDelivery.update(**ends).execute()).result()
        assert wait_for(lambda: not service.executors.delivering.is_busy, 30)
    return found


def to(account_id: str, **fields: Any) -> dict[str, Any]:
    return {"targets": [{"accountId": account_id}], "text": "hello", **fields}


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63606060000000"
    "040001f61738550000000049454e44ae426082"
)

RESOURCE_REQUESTS = [
    ResourceRequest("read a post", 200, lambda p, post: p.api.get(f"/v1/posts/{post}"), queued),
    ResourceRequest(
        "move a post",
        200,
        lambda p, post: p.api.patch(f"/v1/posts/{post}", json={"scheduledAt": "2100-01-01T00:00:00Z"}),
        queued,
    ),
    ResourceRequest("cancel a post", 200, lambda p, post: p.api.delete(f"/v1/posts/{post}"), queued),
    ResourceRequest("retry a post", 202, lambda p, post: p.api.post(f"/v1/posts/{post}/retry", json={}), failed),
    ResourceRequest(
        "settle a post", 200, lambda p, post: p.api.post(f"/v1/posts/{post}/settle", json={"published": False}), lost
    ),
    ResourceRequest("read a batch", 200, lambda p, found: p.api.get(f"/v1/batches/{found}"), batch),
    ResourceRequest(
        "edit a batch", 200, lambda p, found: p.api.patch(f"/v1/batches/{found}", json={"text": "other"}), batch
    ),
    ResourceRequest("cancel a batch", 200, lambda p, found: p.api.delete(f"/v1/batches/{found}"), batch),
    ResourceRequest("read a draft", 200, lambda p, found: p.api.get(f"{DRAFTS}/{found}"), draft),
    ResourceRequest(
        "change a draft",
        200,
        lambda p, found: p.api.patch(f"{DRAFTS}/{found}", json={"title": "x"}, headers=as_seen(p, found)),
        draft,
    ),
    ResourceRequest("delete a draft", 200, lambda p, found: p.api.delete(f"{DRAFTS}/{found}"), draft),
    ResourceRequest("propose a draft", 200, lambda p, found: p.api.post(f"{DRAFTS}/{found}/propose"), draft),
    ResourceRequest(
        "approve a draft",
        200,
        lambda p, found: p.api.post(f"{DRAFTS}/{found}/approve", headers=as_seen(p, found)),
        draft,
    ),
    ResourceRequest("return a draft", 200, lambda p, found: p.api.post(f"{DRAFTS}/{found}/return", json={}), draft),
    ResourceRequest("publish a draft", 200, lambda p, found: p.api.post(f"{DRAFTS}/{found}/publish"), draft),
    ResourceRequest("make a link", 200, lambda p, found: p.api.post(f"{DRAFTS}/{found}/link"), draft),
    ResourceRequest("revoke a link", 200, lambda p, found: p.api.delete(f"{DRAFTS}/{found}/link"), linked_draft),
    ResourceRequest("read an account", 200, lambda p, found: p.api.get(f"/v1/accounts/{found}"), account),
    # A Bluesky account has no boards: its owner is told so, everybody else that there is no such account.
    ResourceRequest("list boards", 400, lambda p, found: p.api.get(f"/v1/accounts/{found}/pinterest/boards"), account),
    ResourceRequest(
        "choose a board",
        400,
        lambda p, found: p.api.patch(f"/v1/accounts/{found}/pinterest/default-board", json={"boardId": "1"}),
        account,
    ),
    ResourceRequest("read media", 200, lambda p, found: p.api.get(f"/v1/media/{found}"), picture),
    ResourceRequest(
        "describe media", 200, lambda p, found: p.api.patch(f"/v1/media/{found}", json={"altText": "x"}), picture
    ),
    ResourceRequest("delete media", 200, lambda p, found: p.api.delete(f"/v1/media/{found}"), picture),
    ResourceRequest("read an endpoint", 200, lambda p, found: p.api.get(f"{ENDPOINTS}/{found}"), endpoint, False),
    ResourceRequest(
        "change an endpoint", 200, lambda p, found: p.api.patch(f"{ENDPOINTS}/{found}", json={}), endpoint, False
    ),
    ResourceRequest("delete an endpoint", 200, lambda p, found: p.api.delete(f"{ENDPOINTS}/{found}"), endpoint, False),
    ResourceRequest(
        "test an endpoint", 200, lambda p, found: p.api.post(f"{ENDPOINTS}/{found}/test", json={}), endpoint, False
    ),
    ResourceRequest(
        "exchange a secret", 200, lambda p, found: p.api.post(f"{ENDPOINTS}/{found}/rotate-secret"), endpoint, False
    ),
    ResourceRequest(
        "deliver what failed",
        202,
        lambda p, found: p.api.post(f"{ENDPOINTS}/{found}/redeliver", json={"since": "2026-01-01T00:00:00Z"}),
        endpoint,
        in_profile=False,
    ),
    ResourceRequest("read a channel", 200, lambda p, found: p.api.get(f"{CHANNELS}/{found}"), channel, False),
    ResourceRequest(
        "change a channel", 200, lambda p, found: p.api.patch(f"{CHANNELS}/{found}", json={}), channel, False
    ),
    ResourceRequest("delete a channel", 200, lambda p, found: p.api.delete(f"{CHANNELS}/{found}"), channel, False),
    ResourceRequest(
        "test a channel", 200, lambda p, found: p.api.post(f"{CHANNELS}/{found}/test", json={}), channel, False
    ),
    ResourceRequest("read a delivery", 200, lambda p, found: p.api.get(f"{DELIVERIES}/{found}"), delivery),
    ResourceRequest("deliver again", 202, lambda p, found: p.api.post(f"{DELIVERIES}/{found}/redeliver"), delivery),
    ResourceRequest("publish to an account", 200, lambda p, found: p.api.publish(to(found)), account),
    ResourceRequest(
        "validate for an account", 200, lambda p, found: p.api.post("/v1/posts/validate", json=to(found)), account
    ),
]
