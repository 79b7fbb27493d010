"""Soak clients that publish, schedule and cancel, retry, and journal acknowledged answers."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.app_server import format_instant
from tests.support.soak.invariants import AcknowledgedText, ClientJournal
from tests.support.soak.post_contents import OWN_BYTES, PostContents, make_own_file
from tests.support.soak.soak_world import SoakWorld, pause

GIVE_UP_SECONDS = 240.0


@dataclass
class ClientLoad:
    """`each` posts on every platform, sent by `threads` clients; `run` in the background, `finish` waits.

    `platforms`: only these of the world's.
    """

    world: SoakWorld
    each: int
    seed: int
    immediate: float = 0.4  # of the posts
    moved: float = 0.1  # of the scheduled ones
    canceled: float = 0.1
    lead: tuple[float, float] = (1.2, 4.0)  # seconds from now to the scheduled time
    threads: int = 6
    pace: float = 0.0  # seconds between two posts of one client
    platforms: tuple[str, ...] = ()
    contents: PostContents = field(default_factory=PostContents)
    journal: ClientJournal = field(default_factory=ClientJournal)
    failures: list[str] = field(default_factory=list)

    def start(self) -> ClientLoad:
        self._stop = threading.Event()
        self._todo = self._plan()
        self._lock = threading.Lock()
        self._running = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(self.threads)]
        for thread in self._running:
            thread.start()
        return self

    def stop(self) -> None:
        """No new posts; what was begun goes on until it is acknowledged."""
        self._stop.set()

    @property
    def done(self) -> bool:
        return not any(thread.is_alive() for thread in self._running)

    def finish(self) -> ClientJournal:
        for thread in self._running:
            thread.join(GIVE_UP_SECONDS)
        assert self.done, "the clients did not come to their end"
        assert not self.failures, self.failures[:3]
        return self.journal

    def _plan(self) -> list[tuple[str, int]]:
        platforms = self.platforms or self.world.platforms
        plan = [(name, number) for name in platforms for number in range(self.each)]
        random.Random(self.seed).shuffle(plan)
        return plan

    def _work(self, number: int) -> None:
        chance = random.Random(self.seed * 1000 + number)
        with self.world.client() as client:
            while not self._stop.is_set():
                with self._lock:
                    if not self._todo:
                        return
                    platform, post = self._todo.pop()
                try:
                    self._one(client, chance, platform, post)
                except AssertionError as error:
                    self.failures.append(str(error))
                    return
                pause(self.pace)

    def _one(self, client: httpx.Client, chance: random.Random, platform: str, post: int) -> None:
        text = f"soak {self.seed} {platform} {post}"
        if platform == "bluesky" and post % 2:  # who is mentioned is looked up, so the claim comes before the intent
            text += " @nobody.test"
        said = self.journal.said.setdefault(text, AcknowledgedText(text, platform))
        account = chance.choice(self.world.accounts[platform])
        body = self._body(client, said, post) | {"targets": [{"accountId": account}]}
        # Only what is published at once may carry a first comment.
        scheduled, answer, number = chance.random() >= self.immediate and "firstComment" not in body, None, 0
        while answer is None:  # a time that is over before anybody answered needs another
            number += 1
            if scheduled:
                said.not_before = self._ahead(chance)
                body["scheduledAt"] = format_instant(said.not_before)
            answer = self._send(client, said, "POST", "/v1/posts", body, f"key {number} {text}")
        said.post = answer.json()["results"][0]["postId"]
        if said.not_before is None:
            return
        if chance.random() < self.moved:
            self._move(client, chance, said)
        elif chance.random() < self.canceled:
            done = self._send(client, said, "DELETE", f"/v1/posts/{said.post}", None, f"cancel {text}", own=False)
            said.canceled = done is not None

    def _body(self, client: httpx.Client, said: AcknowledgedText, post: int) -> dict[str, Any]:
        """What the request says of its content; the files that no other post has are uploaded for it."""
        shape, stored = self.contents.shape(said.platform, post), {}
        for name in filter(OWN_BYTES.__contains__, shape.files):
            content = make_own_file(name, said.text)
            said.file = hashlib.sha256(content).hexdigest()
            answer = self._send(
                client, said, "POST", "/v1/media", None, f"file {said.text}", own=False, files={"file": (name, content)}
            )
            assert answer is not None, "an upload is never too late"
            stored[name] = answer.json()["id"]
        return self.contents.body(shape, said.text, stored)

    def _move(self, client: httpx.Client, chance: random.Random, said: AcknowledgedText) -> None:
        later, before = self._ahead(chance) + 500, said.not_before
        later += later == before  # a move to the same time is none, and no event tells of it
        body = {"scheduledAt": format_instant(later)}
        if self._send(client, said, "PATCH", f"/v1/posts/{said.post}", body, f"move {said.text}", own=False):
            said.not_before, said.rescheduled = later, 1
        else:
            said.not_before = min(before or later, later)

    def _ahead(self, chance: random.Random) -> int:
        return int((time.time() + chance.uniform(*self.lead)) * 1000)

    def _send(
        self,
        client: httpx.Client,
        said: AcknowledgedText,
        method: str,
        path: str,
        body: Any,
        key: str,
        *,
        own: bool = True,
        **more: Any,
    ) -> httpx.Response | None:
        """Repeat until it is acknowledged; None when the rules say no (too late to move, a time that is over)."""
        until = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < until:
            try:
                answer = client.request(method, path, json=body, headers={"Idempotency-Key": key}, **more)
            except httpx.HTTPError:
                pause(0.02)
                continue
            if answer.is_success:
                if own:
                    said.answers.append((answer.status_code, answer.content))
                return answer
            rule = answer.json()["error"].get("rule")
            if answer.status_code in (503,) or rule == "idempotency_key.in_progress":
                pause(0.1)
                continue
            if rule in ("scheduledAt.future", "post.status", "post.scheduledAt.window"):
                return None
            raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text}")
        raise AssertionError(f"{method} {path} was not acknowledged in {GIVE_UP_SECONDS} s")
