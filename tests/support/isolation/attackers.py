"""Attack clients in a process of their own, against loopback only.

    python -m tests.support.isolation.attackers ROW < JSON

They read `{"url", "key", "accounts", "seconds"}`, attack for that time, and print the requests sent and answers seen.
They run at a lower CPU priority than the server, as they represent other machines.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import resource
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from tests.support.app_server import format_instant
from tests.support.hostile_media import scans

MEDIA_ID = "med_{:032x}"
MEGA = 1 << 20
IDLE = 1100  # connections, at a server that has 1,024 descriptors
REOPENED_MAX = 20_000
FIRST_SECONDS = 60.0  # for the first request, on a busy machine


@dataclass
class Attack:
    """What an attacker knows, and what it has seen."""

    url: str
    key: str
    accounts: dict[str, list[str]]  # by platform; `plain` is the one that may hang
    seconds: float
    until: float = math.inf  # when it ends: set by `begin`
    sent: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    said: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.port = int(self.url.rpartition(":")[2])
        self._own = threading.local()

    def begin(self) -> None:
        """Let the time run: from the first request on, since making the bodies takes a busy machine seconds."""
        self.until = min(self.until, time.monotonic() + self.seconds)

    @property
    def on(self) -> bool:
        return time.monotonic() < self.until

    def send(self, method: str, path: str, *, key: bool = True, **more: Any) -> None:
        """One request; a server that hangs up is an answer too."""
        headers = ({"Authorization": f"Bearer {self.key}"} if key else {}) | more.pop("headers", {})
        self.sent += 1
        try:
            answer = self._client.request(method, path, headers=headers, **more)
        except httpx.HTTPError as error:
            self.seen[type(error).__name__] += 1
        else:
            self.seen[str(answer.status_code)] += 1
            self.said.setdefault(f"{method} {path} {answer.status_code}", answer.text[:200])

    @property
    def _client(self) -> httpx.Client:
        """One each thread; the connection is kept."""
        if not hasattr(self._own, "client"):
            self._own.client = httpx.Client(base_url=self.url, trust_env=False, verify=False, timeout=self.seconds + 60)
        return self._own.client

    def repeat(self, workers: int, *calls: Callable[[], None], times: int = 1_000_000) -> None:
        """Each of `workers` makes these calls by turns until the time is over, or `times`; one call at least."""

        def work(number: int) -> None:
            for turn in range(times):
                calls[(number + turn) % len(calls)]()
                if not self.on:
                    return

        self.begin()
        for number in range(workers):
            threading.Thread(target=work, args=(number,), daemon=True).start()

    def post(self, path: str, body: bytes, kind: str = "application/json", *, key: bool = True) -> Callable[[], None]:
        return lambda: self.send("POST", path, key=key, content=body, headers={"Content-Type": kind})

    @property
    def targets(self) -> list[dict[str, str]]:
        return [{"accountId": account} for account in self.accounts["twitter"]]


# --- The rows ---


def ids(attack: Attack) -> None:
    """Five at once: 10,000 ids for 25 targets, and as many as a list may have, in each of 25 targets."""
    many = [MEDIA_ID.format(number) for number in range(10_000)]
    full = [target | {"media": many[n * 40 : n * 40 + 40]} for n, target in enumerate(attack.targets)]
    attack.repeat(
        5,
        attack.post("/v1/posts/validate", dumped(text="x", targets=attack.targets, media=many)),
        attack.post("/v1/posts/validate", dumped(text="x", targets=full)),
    )


def fields(attack: Attack) -> None:
    """8 MB of wrong targets, 600,000 unknown fields, a field name of 8 MB."""
    attack.repeat(
        5,
        attack.post("/v1/posts", b'{"targets":[' + b"0," * (4 * MEGA) + b"0]}"),
        attack.post("/v1/posts", dumped(**{f"f{number}": 1 for number in range(600_000)})),
        attack.post("/v1/posts", dumped(**{"n" * (8 * MEGA): 1})),
    )


def cookies(attack: Attack) -> None:
    cookie = {"Cookie": 'socialpub_session="' + "\\" * 7000}
    attack.repeat(
        8,
        lambda: attack.send("GET", "/healthz", key=False, headers=cookie),
        lambda: attack.send("GET", "/v1/posts", key=False, headers=cookie),
        lambda: attack.send("GET", "/login", key=False, headers=cookie),
    )


def halves(attack: Attack) -> None:
    """100 bodies of 8 MiB of which the last byte never comes, half of them for a route that takes none; and logins."""
    heads = [
        f"{what} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {8 * MEGA}\r\n\r\n".encode()
        for what, kind in (("GET /healthz", "text/plain"), ("POST /v1/posts", "application/json"))
    ]

    def half(number: int) -> None:
        attack.sent += 1
        with socket.create_connection(("127.0.0.1", attack.port)) as line:
            try:
                line.sendall(heads[number % 2])
                for _ in range(8):
                    line.sendall(b"x" * (MEGA - 1))
                line.settimeout(max(0.1, attack.until - time.monotonic()))
                attack.seen[line.recv(12)[9:12].decode() or "closed"] += 1
            except OSError as error:
                attack.seen[type(error).__name__] += 1

    attack.begin()
    for number in range(100):
        threading.Thread(target=half, args=(number,), daemon=True).start()
    form = b"email=a%40example.com&password=" + b"x" * (8 * MEGA)
    attack.repeat(4, attack.post("/login", form, "application/x-www-form-urlencoded", key=False))


def logins(attack: Attack) -> None:
    form = "&".join(["email=a%40example.com&password=x", *(f"f{number}=1" for number in range(99))]).encode()
    attack.repeat(8, attack.post("/login", form, "application/x-www-form-urlencoded", key=False))


class _Drip(BaseHTTPRequestHandler):
    """A picture that comes by the byte."""

    def do_HEAD(self) -> None:
        self._head()

    def do_GET(self) -> None:
        self._head()
        try:
            while True:
                self.wfile.write(b"\x89PNG\r\n\x1a\n"[:1])
                time.sleep(0.5)
        except OSError:
            self.close_connection = True

    def _head(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "image/png")
        self.send_header("Content-Length", "1000000")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing: it is asked often."""


def hanging(attack: Attack) -> None:
    """12 validates whose media drip, and 300 immediate posts of 150 accounts to a platform that hangs."""
    dripping = ThreadingHTTPServer(("127.0.0.1", 0), _Drip)
    threading.Thread(target=dripping.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    urls = (f"http://127.0.0.1:{dripping.server_port}/{number}.png" for number in range(10**9))

    def validate() -> None:
        media = [{"kind": "image", "url": next(urls)} for _ in range(4)]
        attack.send("POST", "/v1/posts/validate", json={"text": "x", "targets": attack.targets[:1], "media": media})

    def publish(number: int) -> Callable[[], None]:
        target = {"accountId": attack.accounts["plain"][number % 150]}
        return lambda: attack.send("POST", "/v1/posts", json={"text": f"hanging {number}", "targets": [target]})

    attack.repeat(12, validate)
    for number in range(300):
        attack.repeat(1, publish(number), times=1)


def scheduled(attack: Attack) -> None:
    """450 posts of 150 accounts, each batch due three seconds after it was sent; one that came too late goes again."""
    batches = [(turn, some) for turn in range(3) for some in slices(attack.accounts["plain"], 25)]

    def schedule() -> None:
        turn, some = batches.pop(0)
        body = {"text": f"due {turn}", "targets": [{"accountId": account} for account in some]}
        refused = attack.seen["400"]
        attack.send("POST", "/v1/posts", json=body | {"scheduledAt": format_instant(int((time.time() + 3) * 1000))})
        if attack.seen["400"] > refused:
            batches.append((turn, some))

    attack.repeat(1, lambda: schedule() if batches else time.sleep(0.1))


def images(attack: Attack) -> None:
    file = scans(120)
    attack.repeat(12, lambda: attack.send("POST", "/v1/media", files={"file": ("many-scans.jpg", file, "image/jpeg")}))


def texts(attack: Attack) -> None:
    """8 validates with 25 texts of 100,000 × `com.`, of nearly as much as a body may have, and of what a text may."""
    attack.repeat(
        8,
        *(
            attack.post(
                "/v1/posts/validate", dumped(targets=[{**one, "text": "com." * times} for one in attack.targets])
            )
            for times in (100_000, 75_000, 5_000, 250)
        ),
    )


def readers(attack: Attack) -> None:
    attack.repeat(16, lambda: attack.send("GET", "/docs/reference", key=False))


def idle(attack: Attack) -> None:
    """1,100 connections that say nothing; one that is closed is opened anew."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    attack.begin()

    async def hold() -> None:
        while attack.on and attack.sent < REOPENED_MAX:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", attack.port)
                attack.sent += 1
                await reader.read(1)
                writer.close()
                attack.seen["closed"] += 1
            except OSError as error:
                attack.seen[type(error).__name__] += 1
            await asyncio.sleep(1)

    async def besiege() -> None:
        await asyncio.gather(*(hold() for _ in range(IDLE)))

    threading.Thread(target=asyncio.run, args=(besiege(),), daemon=True).start()


ROWS: dict[str, Callable[[Attack], None]] = {
    attack.__name__: attack
    for attack in (ids, fields, cookies, halves, logins, hanging, scheduled, images, texts, readers, idle)
}


def dumped(**body: Any) -> bytes:
    return json.dumps(body).encode()


def slices(values: list[str], size: int) -> Iterator[list[str]]:
    return (values[start : start + size] for start in range(0, len(values), size))


def main() -> None:
    os.nice(10)
    attack = Attack(**json.load(sys.stdin))
    ROWS[sys.argv[1]](attack)
    while attack.on or (not attack.sent and time.monotonic() < attack.until + FIRST_SECONDS):
        time.sleep(0.05)
    print(json.dumps({"sent": attack.sent, "seen": attack.seen, "said": attack.said}), flush=True)
    os._exit(0)  # whatever still waits for an answer


if __name__ == "__main__":
    main()
