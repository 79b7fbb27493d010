"""Random connection cuts to a real Bluesky server: each post is published once.

Texts and cards begin with byte order marks, hold emoji, tags and mentions; posts have images, cards, comments, and
answer each other. A post whose cut came before anything was public is tried again, as its owner would.
"""

from __future__ import annotations

import http.server
import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from socialpub.base import http as outbound
from socialpub.domain import post_states
from socialpub.domain.publishing import lookup_schedule, transactions
from socialpub.platforms.bluesky.text import strip_bom
from socialpub.platforms.contract import AccountIdentity, Platform, Tokens
from tests.support.app_server import UNLIMITED, AppServer, Person, format_instant
from tests.support.bluesky_pds import BlueskyPds, start_pds
from tests.support.faulty_proxy import CUTS, FaultyProxy
from tests.support.reporting import ReportLine
from tests.support.request_cast import inline_item, make_picture
from tests.support.soak import server_main
from tests.support.soak.soak_world import configured_count, new_seed

pytestmark = [pytest.mark.upstream, pytest.mark.slow]

ACCOUNTS = 12
WAVE = 36
CLIENTS = 12
CALL_SECONDS = 1.0
HURRY = 0.05  # looks come at a twentieth of their times; what is late is late by 6 of the seconds between them
END_SECONDS = 300.0
AHEAD_SECONDS = 120.0
BOM = "\ufeff"
EMOJI = ("🥖", "👩\u200d💻", "🇦🇹", "é\u0301", "日本", "👨\u200d👩\u200d👧")


@pytest.fixture(scope="module")
def pds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlueskyPds]:
    yield from start_pds(tmp_path_factory.mktemp("pds"))


# --- The stranger's pages --------------------------------------------------------------------------------------------


class _Pages(http.server.BaseHTTPRequestHandler):
    """`/page/N`: a page whose title and description begin with a byte order mark; some have a picture."""

    def do_GET(self) -> None:
        number = self.path.rpartition("/")[2]
        if self.path.startswith("/thumb/"):
            self._answer("image/png", make_picture(size=(8, 8 + int(number) % 50)))
        else:
            shown = f"<meta property=og:image content=/thumb/{number}>" if int(number) % 2 else ""
            head = f"<title>{BOM}Card {number} 🥖</title><meta name=description content='{BOM} About {number}'>{shown}"
            self._answer("text/html; charset=utf-8", f"{BOM}<html><head>{head}</head>".encode())

    def _answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def pages() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


# --- What is published -----------------------------------------------------------------------------------------------


@dataclass
class Wish:
    """One post as its owner asked for it, and what became of it."""

    number: int
    account: str  # its name
    text: str
    scheduled: bool
    images: int = 0
    link: str = ""
    comment: str = ""
    answers: Wish | None = None
    post: str = ""
    told: dict[str, Any] = field(default_factory=dict)
    retries: int = 0


@dataclass
class Author:
    """Draws wishes by the seed."""

    dice: random.Random
    page: str
    handle: str
    wishes: list[Wish] = field(default_factory=list)

    def wish(self) -> Wish:
        dice, number = self.dice, len(self.wishes)
        kind = dice.choice(("plain", "images", "link", "images", "link"))
        link = f"{self.page}/page/{number}" if kind == "link" else ""
        words = [
            f"n{number}",
            dice.choice(EMOJI),
            "#bread",
            dice.choice(("", f"@{self.handle}")),
            dice.choice(EMOJI),
            link,
        ]
        done = [wish for wish in self.wishes if wish.told.get("uri")]
        made = Wish(
            number,
            f"a{dice.randrange(ACCOUNTS)}",
            dice.choice((BOM, "", BOM * 2)) + " ".join(filter(None, words)),
            scheduled=dice.random() < 0.4,
            images=dice.randrange(1, 4) if kind == "images" else 0,
            link=link,
        )
        if not made.scheduled:
            made.comment = dice.choice(("", "", f"{BOM}c{number} {dice.choice(EMOJI)} #warm"))
            made.answers = dice.choice(done) if done and dice.random() < 0.3 else None
        self.wishes.append(made)
        return made


def body(server: AppServer, alice: Person, wish: Wish, soon: str) -> dict[str, Any]:
    target: dict[str, Any] = {"accountId": alice.accounts[wish.account]["id"]}
    if wish.answers:
        parent = wish.answers.told
        target["options"] = {"platform": "bluesky", "replyToUri": parent["uri"], "replyToCid": parent["cid"]}
    wanted: dict[str, Any] = {"targets": [target], "text": wish.text}
    shapes = [(8 + wish.number % 90, 8 + number) for number in range(wish.images)]
    wanted["media"] = [inline_item(make_picture(size=size), altText=f"{BOM}alt {wish.number}") for size in shapes]
    if wish.scheduled:
        wanted["scheduledAt"] = soon
    if wish.comment:
        wanted["firstComment"] = {"text": wish.comment}
    return wanted


# --- The run ---------------------------------------------------------------------------------------------------------


@dataclass
class Run:
    pds: BlueskyPds
    proxy: FaultyProxy
    server: AppServer
    alice: Person
    author: Author

    def wave(self) -> None:
        """Publish, until each post of the wave is out."""
        soon = format_instant(self.server.clock.now_ms() + int(AHEAD_SECONDS * 1000))
        wishes = sorted((self.author.wish() for _ in range(WAVE)), key=lambda wish: not wish.scheduled)
        with ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(lambda wish: self._publish(wish, soon), wishes))
        self.server.skip(AHEAD_SECONDS)
        until = time.monotonic() + END_SECONDS
        while wishes := [wish for wish in wishes if not self._is_out(wish)]:
            assert time.monotonic() < until, wishes
            time.sleep(0.2)

    def _publish(self, wish: Wish, soon: str) -> None:
        answer = self.alice.api.publish(body(self.server, self.alice, wish, soon), key=f"wish-{wish.number}")
        assert answer.status_code in (200, 202), answer.text
        wish.post = answer.json()["results"][0]["postId"]

    def _is_out(self, wish: Wish) -> bool:
        """Whether the post is published; one that failed before anything was public is tried again."""
        if wish.told:
            return True
        shown = self.alice.api.get(f"/v1/posts/{wish.post}").json()
        if shown["status"] == "failed":
            error = shown["error"]
            assert (error["code"], error.get("rule")) == ("platform_unavailable", None), (wish, error)
            assert self.alice.api.post(f"/v1/posts/{wish.post}/retry", json={}).status_code == 202
            wish.retries += 1
            return False
        assert shown["status"] not in ("rejected", "canceled"), (wish, shown)
        if shown["status"] == "published":
            wish.told = {"uri": shown["platformUri"], "cid": shown["platformCid"], "comment": shown.get("firstComment")}
        return bool(wish.told)


def open_accounts(pds: BlueskyPds, proxy: FaultyProxy, server: AppServer, alice: Person) -> None:
    """Accounts on the real server, which ours calls through the proxy."""
    for number in range(ACCOUNTS):
        handle = f"{secrets.token_hex(4)}.test"
        wanted = {"handle": handle, "email": f"{handle}@example.com", "password": secrets.token_hex(8)}
        made = httpx.post(f"{pds.url}/xrpc/com.atproto.server.createAccount", json=wanted, trust_env=False).json()
        identity = AccountIdentity(made["did"], handle, {"handle": handle, "pds": proxy.url})
        server._keep(alice, f"a{number}", "bluesky", identity, Tokens(made["accessJwt"], made["refreshJwt"]))


def records(pds: BlueskyPds, did: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    wanted = {"repo": did, "collection": "app.bsky.feed.post", "limit": "100"}
    while True:
        answer = httpx.get(f"{pds.url}/xrpc/com.atproto.repo.listRecords", params=wanted, trust_env=False).json()
        found += answer["records"]
        if len(answer["records"]) < 100:
            return found
        wanted["cursor"] = answer["cursor"]


# --- What must be true -----------------------------------------------------------------------------------------------


def check(wish: Wish, found: dict[str, Any], handle_did: str) -> None:
    """The record is what was asked for."""
    value = found["value"]
    assert (found["uri"], found["cid"]) == (wish.told["uri"], wish.told["cid"])
    assert value["text"] == strip_bom(wish.text)
    check_facets(value, handle_did)
    embed = value.get("embed", {})
    if wish.images:
        assert [image["alt"] for image in embed["images"]] == [f"alt {wish.number}"] * wish.images
    elif wish.link and embed:
        card = embed["external"]
        assert (card["title"], card["description"]) == (f"Card {wish.number} 🥖", f"About {wish.number}")
    if wish.answers:
        assert value["reply"] == {"root": root(wish.answers), "parent": ref(wish.answers)}


def check_facets(value: dict[str, Any], handle_did: str) -> None:
    text = value["text"].encode()
    for facet in value["facets"]:
        shown = text[facet["index"]["byteStart"] : facet["index"]["byteEnd"]].decode()
        feature = facet["features"][0]
        meant = feature.get("uri") or feature.get("did") or f"#{feature.get('tag')}"
        assert meant == (handle_did if shown.startswith("@") else shown)


def ref(wish: Wish) -> dict[str, str]:
    return {"uri": wish.told["uri"], "cid": wish.told["cid"]}


def root(wish: Wish) -> dict[str, str]:
    return root(wish.answers) if wish.answers else ref(wish)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls end after a second, and looks come soon."""
    replaced = (
        (outbound.HttpClient, "request"),
        (Platform, "choose_send_class"),
        (transactions, "save_progress"),
        (post_states, "find_pause_ms"),
    )
    for owner, name in replaced:
        monkeypatch.setattr(owner, name, getattr(owner, name))  # what the next two lines replace is restored
    server_main._cut_off(CALL_SECONDS)
    server_main._hurry(HURRY)
    monkeypatch.setattr(
        lookup_schedule, "COMMENT_LOOKUP_TIMES", tuple(check * HURRY for check in lookup_schedule.COMMENT_LOOKUP_TIMES)
    )


def test_random_cuts_leave_each_post_once_and_none_unknown(
    pds: BlueskyPds, make_server: Callable[..., AppServer], hurried: None, tell: ReportLine
) -> None:
    seed, wanted = new_seed(), configured_count("cuts", 500)
    began = time.monotonic()
    with FaultyProxy(pds.url, seed).serving() as proxy, pages() as page:
        site = pds.site() | {"service": proxy.url, "public_api": proxy.url}
        patient = {"immediate_wait": 20, "retry_waits": [0.3] * 40}
        server = make_server(platforms={"bluesky": site}, publishing=patient, limits=UNLIMITED)
        alice = server.person("Alice")
        open_accounts(pds, proxy, server, alice)
        run = Run(pds, proxy, server, alice, Author(random.Random(seed), page, pds.handle))
        proxy.cutting = True
        while proxy.cuts.total() < wanted:
            run.wave()
        proxy.cutting = False
        proxy.settle()
    dids = {name: account["platformAccountId"] for name, account in alice.accounts.items()}
    there = {name: records(pds, did) for name, did in dids.items()}
    tell(table(seed, run, time.monotonic() - began))
    left = {record["uri"]: record for found in there.values() for record in found}
    for wish in run.author.wishes:
        mine = [record for record in there[wish.account] if words(record)[0] == f"n{wish.number}"]
        assert len(mine) == 1, (wish, mine)
        check(wish, mine[0], pds.did)
        del left[wish.told["uri"]]
        comments = [record for record in there[wish.account] if words(record)[0] == f"c{wish.number}"]
        assert len(comments) <= 1, (wish, comments)
        told = (wish.told["comment"] or {}).get("uri")
        assert not told or [record["uri"] for record in comments] == [told]
        for record in comments:
            assert record["value"]["reply"] == {"root": root(wish), "parent": ref(wish)}
            del left[record["uri"]]
    assert left == {}
    assert {name for name, _ in proxy.cuts} == set(CUTS)


# --- A thread --------------------------------------------------------------------------------------------------------


def test_a_thread_of_ten_stays_whole_under_cuts(
    pds: BlueskyPds, make_server: Callable[..., AppServer], hurried: None, tell: ReportLine
) -> None:
    seed, wanted = new_seed(), configured_count("thread_cuts", 30)
    began = time.monotonic()
    with FaultyProxy(pds.url, seed).serving() as proxy:
        site = pds.site() | {"service": proxy.url, "public_api": proxy.url}
        server = make_server(platforms={"bluesky": site}, publishing={"retry_waits": [0.3] * 40}, limits=UNLIMITED)
        alice = server.person("Alice")
        open_accounts(pds, proxy, server, alice)
        proxy.cutting = True
        chains: list[tuple[str, list[str]]] = []
        while proxy.cuts.total() < wanted or not chains:
            chains.append((f"a{len(chains) % ACCOUNTS}", [f"thread {len(chains)} piece {n}" for n in range(10)]))
            publish_thread(server, alice, *chains[-1])
        proxy.cutting = False
        proxy.settle()
    tell(f"{proxy.cuts.total()} cuts in {len(chains)} threads of ten, seed {seed}, {time.monotonic() - began:.0f} s")
    there = {name: records(pds, account["platformAccountId"]) for name, account in alice.accounts.items()}
    for name, texts in chains:
        mine = {record["value"]["text"]: record for record in there[name] if record["value"]["text"] in texts}
        assert sum(record["value"]["text"] in texts for record in there[name]) == len(texts)
        found = [mine[text] for text in texts]
        refs = [{"uri": record["uri"], "cid": record["cid"]} for record in found]
        assert "reply" not in found[0]["value"]
        assert [record["value"]["reply"] for record in found[1:]] == [
            {"root": refs[0], "parent": parent} for parent in refs[:-1]
        ]
        times = [record["value"]["createdAt"] for record in found]
        assert times == sorted(times)


def publish_thread(server: AppServer, alice: Person, name: str, texts: list[str]) -> None:
    """Publish a thread, every third piece with an image; a piece that failed is retried as its owner would."""
    pieces = [
        {"text": text, "media": [inline_item(make_picture(size=(8, 8 + number)))] if number % 3 == 2 else []}
        for number, text in enumerate(texts)
    ]
    target = {"accountId": alice.accounts[name]["id"]}
    answer = alice.api.publish({"targets": [target], **pieces[0], "thread": pieces[1:]})
    assert answer.status_code in (200, 202), answer.text
    batch, until = answer.json()["id"], time.monotonic() + END_SECONDS
    while True:
        assert time.monotonic() < until, batch
        shown = alice.api.get("/v1/posts", params={"batchId": batch}).json()["data"][::-1]
        if all(post["status"] == "published" for post in shown):
            return
        first = next(post for post in shown if post["status"] != "published")
        if first["status"] == "failed":
            assert (first["error"]["code"], first["error"].get("rule")) == ("platform_unavailable", None), first
            assert alice.api.post(f"/v1/posts/{first['id']}/retry", json={}).status_code == 202
        time.sleep(0.1)


def words(record: dict[str, Any]) -> list[str]:
    return str(record["value"]["text"]).split()


def table(seed: int, run: Run, seconds: float) -> str:
    wishes, cuts = run.author.wishes, run.proxy.cuts
    kinds = {
        "images": sum(bool(wish.images) for wish in wishes),
        "cards": sum(bool(wish.link) for wish in wishes),
        "answers": sum(bool(wish.answers) for wish in wishes),
        "with a mark": sum(wish.text.startswith(BOM) for wish in wishes),
        "comments": sum(bool(wish.comment) for wish in wishes),
        "scheduled": sum(wish.scheduled for wish in wishes),
    }
    by_name: Counter[str] = Counter()
    for (name, _), times in cuts.items():
        by_name[name] += times
    lines = [f"{cuts.total()} cuts in {run.proxy.requests} requests, {len(wishes)} posts, seed {seed}, {seconds:.0f} s"]
    lines.append(", ".join(f"{number} {name}" for name, number in kinds.items()))
    lines.append(f"{sum(wish.retries for wish in wishes)} retries by hand")
    for name in CUTS:
        on = {nsid.rpartition(".")[2]: times for (cut, nsid), times in sorted(cuts.items()) if cut == name}
        lines.append(f"  {name:28} {by_name[name]:4}  {on}")
    return "\n".join(lines)
