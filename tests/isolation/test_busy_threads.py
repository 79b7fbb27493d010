"""Work that occupies threads: refused beyond its owner's share, without delaying others."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest

from socialpub.base import http as outbound
from socialpub.base.concurrency.fair_executor import BUSY_RETRY_SECONDS, NO_SHARE_KEY, FairExecutor, ShareKey
from socialpub.base.errors import ApiError
from socialpub.base.http import network
from socialpub.domain.posts.preflight import INLINE_TEXT_MAX
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import Post
from tests.support.app_server import AppServer, Person, error_of
from tests.support.connect_flow import open_connect_session
from tests.support.file_server import FileServer
from tests.support.request_cast import RequestCast, make_picture
from tests.support.soak.soak_world import wait_for


def fill(pool: FairExecutor, share: ShareKey, over: threading.Event) -> list[Future[bool]]:
    """Let run and wait what may in this share, and not one more."""
    held: list[Future[bool]] = []

    def is_full() -> bool:
        with contextlib.suppress(ApiError):
            while True:
                pool.admit(share)
                held.append(pool.submit_for(share, over.wait, 60))
        full = pool._shares.get_saturated()
        return share.host in full.hosts or share.owner in full.owners  # else some of what waits is about to run

    assert wait_for(is_full, 30)
    return held


def is_busy(answer: httpx.Response) -> bool:
    if answer.status_code != 503:
        return False
    assert (error_of(answer)["rule"], answer.headers["Retry-After"]) == ("http.busy", str(BUSY_RETRY_SECONDS))
    return True


def body_of(person: Person, **fields: Any) -> dict[str, Any]:
    return {"targets": [{"accountId": person.bluesky}], "text": "hello", **fields}


Ask = Callable[[Person], httpx.Response]
VALIDATE: Ask = lambda who: who.api.post("/v1/posts/validate", json=body_of(who))  # noqa: E731
MEASURE: Ask = lambda who: who.api.post(  # noqa: E731
    "/v1/posts/validate", json=body_of(who, text="x" * INLINE_TEXT_MAX * 2, deep=False)
)
PUBLISH: Ask = lambda who: who.api.publish(body_of(who))  # noqa: E731


@pytest.mark.parametrize(("name", "ask"), [("custom_hosts", VALIDATE), ("measuring", MEASURE), ("immediate", PUBLISH)])
def test_who_keeps_too_much_waiting_is_refused_and_nobody_else(
    world: RequestCast, over: threading.Event, name: str, ask: Ask
) -> None:
    """Alice's organization has all that may wait: she is told to come back later, and Charlie is answered."""
    server, alice, charlie = world.server, world.alice, world.charlie
    held = fill(getattr(server.service.executors, name), ShareKey("hangs", alice.organization), over)
    with alice.api.expecting_failure():
        assert is_busy(ask(alice))
    assert server.service.read(lambda: Post.select().count()).result() == 0
    assert alice.api.get("/v1/posts").status_code == 200
    assert ask(charlie).status_code == 200
    over.set()
    assert all(each.result(60) for each in held)
    assert ask(alice).status_code == 200


def test_what_was_accepted_is_never_refused(world: RequestCast, over: threading.Event) -> None:
    """A post that waits behind all the others goes out; what may wait is used up, and a scheduled one is taken."""
    alice, pool = world.alice, world.server.service.executors.immediate
    share = ShareKey("bluesky", alice.organization)
    pool.withdraw(share, fill(pool, share, over).pop())
    with ThreadPoolExecutor(1) as client:
        answer = client.submit(PUBLISH, alice)
        assert wait_for(lambda: alice.api.get("/v1/posts").json()["data"] != [], 30)
        with alice.api.expecting_failure():
            assert is_busy(PUBLISH(alice))
        assert alice.api.publish(body_of(alice, scheduledAt=world.soon())).status_code == 202
        over.set()
        assert answer.result(60).json()["status"] == "published"


@pytest.mark.slow
def test_name_with_a_silent_server_does_not_block_other_lookups(world: RequestCast, over: threading.Event) -> None:
    """Fifty look-ups of one organization hang; another publishes, by a name that has to be resolved."""
    service, hanging = world.server.service, set()

    def resolver(host: str, port: int) -> list[str]:
        if host.endswith(".hangs.example"):
            hanging.add(host)
            over.wait(60)
        return outbound.resolve(host, port)

    service.runtime = replace(service.runtime, resolver=resolver)
    with ThreadPoolExecutor(2) as clients:
        answers = []
        for number in range(2):
            media = [f"https://{number}-{target}.hangs.example/a.png" for target in range(25)]
            targets = [world.target(media=[{"kind": "image", "url": url}]) for url in media]
            body = world.body(targets=targets)
            answers.append(clients.submit(world.alice.api.post, "/v1/posts/validate", json=body))
        assert wait_for(lambda: len(hanging) >= 28, 30), hanging
        assert PUBLISH(world.charlie).json()["status"] == "published"
        assert len(hanging) == 28  # six for each of the four that are free
        over.set()
        assert [answer.result(60).status_code for answer in answers] == [200, 200]
    assert wait_for(lambda: not network.resolver_executor.is_busy and not network.resolver_executor.waiting_count, 30)


def test_connecting_to_a_users_server_does_not_take_platform_slots(
    make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch, over: threading.Event
) -> None:
    """While all those threads are kept, an account is connected by its handle, there and back."""
    office = open_connect_session(make_server, lab, monkeypatch, "bluesky")
    office.login_exists()
    service = office.server.service
    threads = service.runtime.settings.publishing.threads
    held = [service.executors.immediate.submit_for(NO_SHARE_KEY, over.wait, 60) for _ in range(threads)]
    assert office.connect().status_code == 201
    assert not any(each.done() for each in held)


def accounts_of(world: RequestCast, count: int) -> list[str]:
    """As many more accounts of Alice's: posts of one account go out one after another."""
    made = [world.server.connect_bluesky(world.alice, name=f"more-{number}") for number in range(count)]
    return [str(account["id"]) for account in made]


@pytest.mark.slow
def test_media_that_do_not_come_keep_no_worker_from_other_posts(world: RequestCast, shelf: FileServer) -> None:
    """Ten due posts wait for a file that hangs, each of another account: another's due post to the same platform goes
    out, and so do they once their file comes."""
    shelf.open.clear()
    alice, charlie = world.alice, world.charlie
    media = [{"kind": "image", "url": shelf.put("/slow.png", make_picture())}]
    slow = [
        alice.api.publish(
            {"targets": [{"accountId": each}], "text": each, "media": media, "scheduledAt": world.soon()}
        ).json()["results"][0]["postId"]
        for each in accounts_of(world, 10)
    ]
    quick = charlie.api.publish(body_of(charlie, scheduledAt=world.soon())).json()["results"][0]["postId"]
    world.server.skip(3601)
    status = lambda who, post: who.api.get(f"/v1/posts/{post}").json()["status"]  # noqa: E731
    assert wait_for(lambda: status(charlie, quick) == "published", 30)
    assert wait_for(lambda: len(shelf.asked) == 10, 30)
    assert {status(alice, post) for post in slow} <= {"queued", "publishing"}
    assert wait_for(lambda: not world.server.service.jobs.held(), 30)
    shelf.open.set()
    assert wait_for(lambda: [status(alice, post) for post in slow] == ["published"] * 10, 60)
    texts = [entry.text for entry in world.server.lab.lab.ledger.entries("bluesky")]
    assert len(texts) == len(set(texts)) == 11
    assert shelf.asked == ["/slow.png"] * 10


def test_media_that_do_not_come_keep_no_thread_of_an_immediate_post(world: RequestCast, shelf: FileServer) -> None:
    """Its request waits for it as ever; no thread for calls to platforms does."""
    shelf.open.clear()
    service = world.server.service
    media = [{"kind": "image", "url": shelf.put("/slow.png", make_picture())}]
    with ThreadPoolExecutor(1) as client:
        answer = client.submit(world.alice.api.publish, world.body(media=media))
        assert wait_for(lambda: shelf.asked == ["/slow.png"], 30)
        assert wait_for(lambda: not service.executors.immediate.is_busy and not service.jobs.held(), 30)
        assert not answer.done()
        shelf.open.set()
        assert answer.result(60).json()["status"] == "published"
    assert shelf.asked == ["/slow.png"]
