"""Long reads delay neither key look-ups nor posts, and end at their deadline."""

from __future__ import annotations

import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

from socialpub.base.concurrency.fair_executor import BUSY_RETRY_SECONDS, ShareKey
from socialpub.store.database import READERS, REQUEST_QUEUE, current_requester, proxy
from socialpub.store.engine.reader_pool import READ_SECONDS
from socialpub.store.engine.sqlite import DbFuture
from socialpub.store.schema.models import ApiKey
from tests.support.app_server import AppServer, error_of
from tests.support.connect_flow import sign_in
from tests.support.request_cast import RequestCast
from tests.support.soak.soak_world import wait_for

SEARCH = {"q": "hours"}  # it takes a reader, where a page without a text is read on the loop
ENDLESS = """CREATE VIEW profile AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT kept.* FROM profile_kept AS kept, (SELECT count(*) AS long FROM n) WHERE long > 0"""


def hold_readers(server: AppServer, over: threading.Event) -> list[DbFuture[bool]]:
    """As many long reads as there are readers for requests, each of another organization; they are under way."""
    running = threading.Semaphore(0)

    def hold() -> bool:
        running.release()
        return over.wait(60)

    def ask(owner: str) -> DbFuture[bool]:
        current_requester.set(ShareKey(owner=owner))
        return server.service.read(hold)

    held = [contextvars.copy_context().run(ask, f"owner {number}") for number in range(READERS)]
    for _ in held:
        assert running.acquire(timeout=30)
    return held


def test_keys_and_sessions_are_looked_up_while_every_reader_is_kept(world: RequestCast, over: threading.Event) -> None:
    """Each answer shows that the server knows who asks: a stranger would get 401 for the same request."""
    alice, wrong = world.alice, world.server.person("Dave")
    browser = sign_in(world.server, alice.organization)
    revoke = ApiKey.update(revoked_at=1).where(ApiKey.id == wrong.key_id)
    world.server.service.write(lambda tx: revoke.execute()).result()
    held = hold_readers(world.server, over)
    for api, status in ((alice.api, 400), (browser, 400), (wrong.api, 401)):
        assert api.get("/v1/posts", params={"colour": "red"}).status_code == status
    with ThreadPoolExecutor(1) as client:
        listing = client.submit(
            alice.api.get, "/v1/posts", params=SEARCH
        )  # this one needs a reader, and gets it in the end
        assert world.charlie.api.get("/v1/posts", params={"colour": "red"}).status_code == 400
        assert not listing.done()
        over.set()
        assert listing.result(60).status_code == 200
    assert all(each.result(60) for each in held)


def test_posts_go_out_while_every_reader_of_requests_is_kept(world: RequestCast, over: threading.Event) -> None:
    world.scheduled()
    held = hold_readers(world.server, over)
    world.server.skip(3601)
    assert wait_for(lambda: len(world.server.lab.lab.ledger.entries("bluesky")) == 1, 30)
    assert not any(each.done() for each in held)


def test_one_organizations_reads_leave_a_reader_for_others(world: RequestCast, over: threading.Event) -> None:
    """However much Alice's organization reads, Charlie's list needs no turn of hers."""
    running = threading.Semaphore(0)

    def hold() -> bool:
        running.release()
        return over.wait(60)

    def ask() -> DbFuture[bool]:
        current_requester.set(ShareKey(owner=world.alice.organization))
        return world.server.service.read(hold)

    held = [contextvars.copy_context().run(ask) for _ in range(20)]
    for _ in range(READERS - 1):
        assert running.acquire(timeout=30)
    assert world.charlie.api.get("/v1/posts", params=SEARCH).status_code == 200
    assert world.charlie.api.publish({"targets": [{"accountId": world.charlie.bluesky}], "text": "hi"}).is_success
    assert not running.acquire(blocking=False)
    over.set()
    assert all(each.result(60) for each in held)


def test_a_read_is_stopped_at_its_deadline_and_its_reader_is_free(world: RequestCast) -> None:
    """Four lists that never end: each is answered 503, and the same readers answer right after."""
    write, clients = world.server.service.write, [world.alice.api] * (READERS - 1) + [world.charlie.api]
    names = [api.get("/v1/profiles").json() for api in clients]
    write(lambda tx: proxy.execute_sql("ALTER TABLE profile RENAME TO profile_kept")).result()
    write(lambda tx: proxy.execute_sql(ENDLESS)).result()
    for api in clients:
        api._may_fail = True
    with ThreadPoolExecutor(len(clients)) as pool:
        answers = [pool.submit(api.get, "/v1/profiles") for api in clients]
        ended = lambda: all(answer.done() for answer in answers)  # noqa: E731
        assert wait_for(lambda: world.server.skip(READ_SECONDS) or ended(), 60)
    for answer in (each.result() for each in answers):
        assert (answer.status_code, error_of(answer)["rule"]) == (503, "http.deadline")
        assert answer.headers["Retry-After"] == str(BUSY_RETRY_SECONDS)
    for api in clients:
        api._may_fail = False
    write(lambda tx: proxy.execute_sql("DROP VIEW profile")).result()
    write(lambda tx: proxy.execute_sql("ALTER TABLE profile_kept RENAME TO profile")).result()
    with ThreadPoolExecutor(len(clients)) as pool:
        again = [pool.submit(api.get, "/v1/profiles") for api in clients]
        assert [answer.result(60).json() for answer in again] == names


def test_who_has_too_many_reads_waiting_is_told_to_come_back(world: RequestCast, over: threading.Event) -> None:
    alice = world.alice
    held = hold_readers(world.server, over)

    def ask() -> DbFuture[int]:
        current_requester.set(ShareKey(owner=alice.organization))
        return world.server.service.read(lambda: 1)

    waiting = [contextvars.copy_context().run(ask) for _ in range(REQUEST_QUEUE.owner)]
    with alice.api.expecting_failure():
        answer = alice.api.get("/v1/posts", params=SEARCH)
    assert (answer.status_code, error_of(answer)["rule"]) == (503, "http.busy")
    assert answer.headers["Retry-After"] == str(BUSY_RETRY_SECONDS)
    over.set()
    assert [each.result(60) for each in (*held, *waiting)] == [True] * READERS + [1] * REQUEST_QUEUE.owner
    assert alice.api.get("/v1/posts", params=SEARCH).status_code == 200
