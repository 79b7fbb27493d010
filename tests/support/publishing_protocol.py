"""In-process server with the three send classes: idempotency key, container, no key."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from socialpub.base.config import Settings
from socialpub.domain.publishing import run
from socialpub.domain.publishing.intents import RunSnapshot
from socialpub.platforms.contract import AccountIdentity, Tokens
from socialpub.store.database import Tx
from socialpub.store.jobs.leases import Claim
from socialpub.store.schema.models import Intent, Job, Post
from tests.support.app_server import AppServer, Person, format_instant, unused_name
from tests.support.soak import extra_platforms
from tests.support.soak.soak_world import CLASSES, wait_for

SEND = {"bluesky": "com.atproto.repo.putRecord", "crate": "publish", "plain": "post"}


@dataclass
class ProtocolServer(AppServer):
    """`alice` has an account of each class. `late`: what was planned takes its own time, which nothing can hurry."""

    late: bool = False

    def settings(self, port: int) -> Settings:
        given = super().settings(port)
        sites = {name: {"api_base": self.lab.origin(name)} for name in CLASSES}
        return given.model_copy(update={"platforms": sites})

    def furnish(self) -> ProtocolServer:
        self.alice = self.person("Alice")
        self.connect_bluesky(self.alice)
        for name in extra_platforms.CONNECTORS:
            made = self.lab.lab.add_account(name, id=unused_name())
            self._keep(self.alice, name, name, AccountIdentity(made["id"], made["id"]), Tokens(made["accessToken"]))
        return self

    def fault(self, platform: str, kind: str, **more: Any) -> None:
        """Play a fault on the one public call of a platform, once unless told otherwise."""
        line = {"fault": kind, "platform": platform, "operation": f"*{SEND[platform]}", "times": 1}
        self.lab.lab.faults.add([line | more])
        self.late |= kind.startswith("late_effect")

    def pace(self) -> contextlib.AbstractContextManager[None]:
        """Looks and new attempts do not wait for their times, unless what they look for takes time itself."""
        return contextlib.nullcontext() if self.late else self.hurried()

    def publish(self, platform: str, text: str, **more: Any) -> dict[str, Any]:
        """The result of an immediate post to one platform."""
        target = {"accountId": self.alice.accounts[platform]["id"]}
        with self.pace():
            answer = self.alice.api.publish({"text": text, "targets": [target], **more})
        assert answer.status_code in (200, 202), answer.text
        return dict(answer.json()["results"][0])

    def ledger(self, text: str) -> list[str]:
        return [entry.remote_id for entry in self.lab.lab.ledger.posts() if entry.text == text]

    def sends(self, platform: str) -> int:
        """How often the public call of a platform arrived."""
        calls = [call for call in list(self.lab.lab.calls) if call.platform == platform]
        return sum(call.operation.endswith(SEND[platform]) for call in calls)

    def post(self, post: str) -> dict[str, Any]:
        return self.rows(Post, id=post)[0]

    def intent(self, post: str) -> dict[str, Any]:
        return self.rows(Intent, post=post)[-1]

    def ended(self, post: str, seconds: float = 20) -> dict[str, Any]:
        """The row once it has come to its end."""
        ends = ("published", "failed", "rejected", "canceled")
        with self.pace():
            assert wait_for(lambda: self.post(post)["status"] in ends, seconds), self.post(post)
        return self.post(post)


def claim_post(server: AppServer, person: Person, seconds: float = 3600) -> RunSnapshot:
    """What a run has taken of a post to Bluesky that is due in so long: the test is the run."""
    at = format_instant(server.clock.now_ms() + int(seconds * 1000))
    body = {"text": "taken by hand", "targets": [{"accountId": person.bluesky}], "scheduledAt": at}
    post = str(person.api.publish(body).raise_for_status().json()["results"][0]["postId"])
    jobs = server.service.jobs

    def take(tx: Tx) -> RunSnapshot | None:
        later = server.clock.now_ms() + 10**10
        Job.update(claims=1, epoch=jobs.epoch, visible_at=later).where(Job.key == post).execute()
        return run.claim_posts(server.service, tx, [Claim(post, 1, person.bluesky)])[0]

    snapshot = server.service.write(take).result()
    assert snapshot is not None
    assert snapshot.intended is not None
    return snapshot


__all__ = ["CLASSES", "SEND", "Person", "ProtocolServer", "claim_post"]
