"""Scheduling of a post, and queries for its status, the publishing pause and readiness."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from socialpub.base.runtime import Clock
from socialpub.commands import cli
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.server import instance
from socialpub.simulator.state import SimulatorState
from tests.support.app_server import AppServer, Person, format_instant


def publish_post(person: Person, text: str = "hello", **fields: Any) -> str:
    """The id of a new post of the person's Bluesky account. `fields`: of its request."""
    answer = person.api.publish({"targets": [{"accountId": person.bluesky}], "text": text, **fields})
    assert answer.status_code in ((202,) if "scheduledAt" in fields else (200, 202)), answer.text
    return str(answer.json()["results"][0]["postId"])


def schedule_post(server: AppServer, person: Person, text: str = "later", seconds: float = 3600, **fields: Any) -> str:
    """The id of a new post (`publish_post`) that is due in so many seconds."""
    return publish_post(person, text, scheduledAt=format_instant(server.clock.now_ms() + int(seconds * 1000)), **fields)


def post_status(server: AppServer, post: str) -> str:
    return str(server.rows(id=post)[0]["status"])


def pause_reason(server: AppServer) -> str | None:
    return server.service.read(instance.get_pause_reason).result()


@dataclass(frozen=True)
class _SlowClock:
    """Ten minutes behind another clock."""

    clock: Clock

    def now_ms(self) -> int:
        return self.clock.now_ms() - 600_000

    def monotonic(self) -> float:
        return self.clock.monotonic()


@contextlib.contextmanager
def paused(service: AppContext, lab: SimulatorState, reason: str = instance.CLOCK) -> Iterator[None]:
    """Pause. The platforms' clock differs meanwhile: if it agreed, the server would soon end a pause for the clock."""
    own, lab.clock = lab.clock, _SlowClock(lab.clock)
    service.write(lambda tx: instance.pause(service, tx, reason)).result()
    try:
        yield
    finally:
        lab.clock = own


def readiness(person: Person) -> dict[str, Any]:
    return dict(person.api.get("/readyz").json())


def resume_publishing(server: AppServer, *arguments: str) -> int:
    """The command, in this process: the server must be down."""
    sites = {"SOCIALPUB_DATABASE__URL": str(server.home / "socialpub.db")}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in sites.items():
            patched.setenv(name, value)
        patched.chdir(server.home)
        return cli.main(["resume", *arguments])
