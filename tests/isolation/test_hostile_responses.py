"""Hostile responses of servers that a user names delay no other organization.

Twelve heads and twelve bodies, each from a webhook receiver, a media host, the page of a link and a platform (the
server that a Bluesky account names). The server and the simulator are separate processes, as they are in use. What
decides is that each answer was asked for, that another organization's posts went out and that nothing was held up for
longer than any machine explains; the times are printed.
"""

from __future__ import annotations

import gzip
import itertools
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from socialpub.platforms.contract import AccountIdentity, Tokens
from tests.support.connection_server import ConnectionServer
from tests.support.reporting import ReportLine
from tests.support.soak.soak_world import SoakWorld, pause, pressure, running_world, schedule_soon, wait_for

pytestmark = pytest.mark.slow

WIDE = 100_000  # of a head: as much as is read of one
LONG = 1_000_000  # of a body
PART = 12  # answers of one kind
OWN = 4  # accounts of the other organization
LEADS = (1.5, 5.0, 15.0)  # seconds from a post's request to its time
LATE_SECONDS = 0.3
HELD_SECONDS = 15.0  # on any machine: one such header took 27 s on a quiet one
ENDS_SECONDS = 120.0

OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
HEADS = {
    "a gap in a value": OK + b"X: a" + b" " * WIDE + b"b\r\n\r\n{}",
    "tabs and spaces": OK + b"X:" + b"\t " * (WIDE // 2) + b"\r\n\r\n{}",
    "folds": OK + b"X: a\r\n" + b" \r\n" * (WIDE // 4) + b"\r\n{}",
    "one name many times": OK + b"A:\r\n" * (WIDE // 5) + b"\r\n{}",
    "many names": OK + b"".join(b"A%d:\r\n" % number for number in range(WIDE // 10)) + b"\r\n{}",
    "a long name": OK + b"A" * WIDE + b": b\r\n\r\n{}",
    "no end": OK + b"X: " + b"a" * (2 * WIDE),
    "line feeds": b"HTTP/1.1 200 OK" + b"\n" * WIDE,
    "returns": OK + b"X: a" + b"\r" * WIDE + b"\r\n\r\n{}",
    "a long status": b"HTTP/1.1 200 " + b" " * WIDE + b"\r\nConnection: close\r\n\r\n{}",
    "many hundreds": b"HTTP/1.1 100 Continue\r\n\r\n" * 3_000 + OK + b"\r\n{}",
    "many lengths": OK
    + b"Content-Length: 2"
    + b", 2" * (WIDE // 4)
    + b"\r\nRetry-After:"
    + b" 9" * 2_000
    + b"\r\n\r\n{}",
}


def body(content: bytes, kind: str = "text/html", more: bytes = b"") -> bytes:
    return OK + b"Content-Type: %b\r\n%b\r\n%b" % (kind.encode(), more, content)


BODIES = {
    "begun tokens": body(b"eyJ-" * (LONG // 4)),
    "brackets": body(b"[" * LONG, "application/json"),
    "empty objects": body(b"[" + b"{}," * (LONG // 3) + b"{}]", "application/json"),
    "digits": body(b'{"id":' + b"9" * LONG + b"}", "application/json"),
    "a number without end": body(b'{"uri":NaN,"cid":1e999,"id":Infinity}', "application/json"),
    "escapes": body(b'{"error":"' + b"\\ud83d" * (LONG // 6) + b'"}', "application/json"),
    "tags": body(b"<a " * (LONG // 3)),
    "comments": body(b"<!--" * (LONG // 4)),
    "metas": body(b'<meta property="og:title" content="' + b"<meta " * (LONG // 6)),
    "entities": body(b"<title>" + b"&#" * (LONG // 2)),
    "tiny chunks": body(b"1\r\na\r\n" * (LONG // 6) + b"0\r\n\r\n", more=b"Transfer-Encoding: chunked\r\n"),
    "packed": body(gzip.compress(b" " * 50_000_000, 9), more=b"Content-Encoding: gzip\r\n"),
}
ANSWERS = HEADS | BODIES


class Stranger:
    """A server that answers each path with what belongs to it, and closes."""

    def __init__(self) -> None:
        self.asked: set[tuple[str, str]] = set()  # (who was asked for, name of the answer)
        self._server = ConnectionServer(self._answer, "0.0.0.0")  # noqa: S104 - each account has an address
        self.port = self._server.port

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(30)
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.recv(65536)
            if not piece:
                return
            head += piece
        what, number = self._meant(connection, head)
        name = list(ANSWERS)[number]
        self.asked.add((what, name))
        connection.sendall(ANSWERS[name])
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            continue

    @staticmethod
    def _meant(connection: socket.socket, head: bytes) -> tuple[str, int]:
        parts = head.split(b" ", 2)[1].decode().split("/")
        if parts[1] == "xrpc":  # the account's server, by its own address
            return "platform", int(connection.getsockname()[0].rpartition(".")[2]) - 100
        return parts[1], int(parts[2])

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    server = Stranger()
    yield server
    server.close()


class HealthProbe(threading.Thread):
    """Requests `/healthz` all the time and keeps how long each answer took."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.took, self.wrong, self._ends = url, list[float](), list[int](), threading.Event()

    def run(self) -> None:
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60) as client:
            while not self._ends.wait(0.02):
                began = time.monotonic()
                status = client.get("/healthz").status_code
                self.took.append(time.monotonic() - began)
                self.wrong += [status] if status != 200 else []

    def stop(self) -> None:
        self._ends.set()
        self.join(60)


@dataclass
class Attacker:
    """An organization whose receivers, media hosts, linked pages and account servers are the stranger's."""

    client: httpx.Client
    accounts: list[str]  # two that the simulator has for each answer, then one whose server is the stranger's
    port: int

    def attack(self, turn: int, number: int) -> None:
        """One answer in all four places: the posts' events go to the receiver."""
        self._send("/v1/webhook-endpoints", {"url": f"http://127.0.0.1:{self.port}/hook/{number}/x"}, {201})
        page, media, platform = self.accounts[2 * turn], self.accounts[2 * turn + 1], self.accounts[2 * PART + turn]
        picture = {"kind": "image", "url": f"http://127.0.0.1:{self.port}/media/{number}/x.jpg"}
        for target in (
            {"accountId": platform, "text": f"platform {number}"},
            {"accountId": page, "text": f"page {number} http://127.0.0.1:{self.port}/page/{number}/x"},
            {"accountId": media, "text": f"media {number}", "media": [picture]},
        ):
            self._send("/v1/posts", {"targets": [target], "text": "x"}, {200, 202})  # 200: it is published by then

    def _send(self, path: str, content: dict[str, object], wanted: set[int]) -> None:
        answer = self.client.post(path, json=content, headers={"Prefer": "respond-async"})
        assert answer.status_code in wanted, answer.text


def stranger_accounts(stranger: Stranger, numbers: list[int]) -> list[tuple[str, AccountIdentity, Tokens]]:
    """A Bluesky account for each answer, whose server is the stranger."""
    return [
        (
            "bluesky",
            AccountIdentity(
                f"did:plc:{'m' * 22}{'abcdefghij'[number // 10]}{'abcdefghij'[number % 10]}",
                f"M {number}",
                {"handle": f"m{number}.test", "pds": f"http://127.0.0.{100 + number}:{stranger.port}"},
            ),
            Tokens("made-up-access", "made-up-refresh"),
        )
        for number in numbers
    ]


@pytest.mark.parametrize("part", ["heads", "bodies"])
def test_the_worst_answers_hold_nobody_else_up(part: str, tmp_path: Path, stranger: Stranger, tell: ReportLine) -> None:
    names = list(HEADS if part == "heads" else BODIES)
    numbers = [list(ANSWERS).index(name) for name in names]
    with running_world(tmp_path, OWN, on=("bluesky",)) as world:
        key, accounts = world.another("Mallory", {"bluesky": 2 * PART}, stranger_accounts(stranger, numbers))
        world.start()
        probe, busy, dues = HealthProbe(world.url), pressure(), dict[str, int]()
        with world.client() as client, world.client() as hers:
            hers.headers["Authorization"] = f"Bearer {key}"
            attacker = Attacker(hers, accounts["bluesky"], stranger.port)
            probe.start()
            for turn, number in enumerate(numbers):
                schedule(world, client, dues, number)
                pause(max(0.0, max(dues.values()) / 1000 - 0.1 - time.time()))
                attacker.attack(turn, number)
            wanted = set(itertools.product(("hook", "media", "page", "platform"), names))
            assert wait_for(lambda: wanted <= stranger.asked, ENDS_SECONDS), sorted(wanted - stranger.asked)
        assert wait_for(lambda: set(dues) <= {entry["text"] for entry in world.lab.ledger()}, ENDS_SECONDS)
        probe.stop()
        out = {entry["text"]: entry["at_ms"] for entry in world.lab.ledger()}
    late = {text: (out[text] - due) / 1000 for text, due in dues.items()}
    assert probe.wrong == []
    assert len(probe.took) > 1
    worst = max(late, key=lambda text: late[text])
    tell(
        f"hostile {part}: /healthz after at most {max(probe.took) * 1000:.0f} ms, another's due post after"
        f" {late[worst] * 1000:.0f} ms ({worst}; wanted: {LATE_SECONDS * 1000:.0f}; {busy:.1f} times busier)"
    )
    assert min(late.values()) >= 0
    assert max(*probe.took, *late.values()) < HELD_SECONDS


def schedule(world: SoakWorld, client: httpx.Client, dues: dict[str, int], number: int) -> None:
    """Schedule a post of another organization that is due while the next attack is at work."""
    text, target = f"due {number}", {"accountId": world.accounts["bluesky"][number % OWN]}
    answer, dues[text] = schedule_soon(client, {"targets": [target], "text": text}, *LEADS)
    assert answer.status_code == 202, answer.text
