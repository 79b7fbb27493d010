"""Server with an account on each platform that has threads, and what became of a thread."""

from __future__ import annotations

import json
from typing import Any

from socialpub.base.config import Settings
from socialpub.platforms import PLATFORMS
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.store.schema.models import Intent, Post
from tests.support.app_server import AppServer, Person, format_instant
from tests.support.soak.soak_world import wait_for

THREADED = tuple(name for name, platform in PLATFORMS.items() if platform.thread)
FIVE = ("one", "two", "three", "four", "five")
ENDS = ("published", "failed", "rejected", "canceled")
PUBLIC_CALLS = {
    "bluesky": "com.atproto.repo.putRecord",
    "threads": "containers.publish",
    "twitter": "tweets.create",
}


class ThreadServer(AppServer):
    """`alice` has an account on each platform with threads, and one on LinkedIn."""

    alice: Person

    def settings(self, port: int) -> Settings:
        given = super().settings(port)
        app = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
        sites = {name: {"api_base": self.lab.origin(name), **app} for name in (*THREADED, "linkedin")}
        return Settings(**{**given.model_dump(exclude_unset=True), "platforms": sites})

    def furnish(self) -> ThreadServer:
        self.alice = self.person("Alice")
        self.connect_bluesky(self.alice)
        for platform in ("threads", "twitter", "linkedin"):
            self.connect_simulated(self.alice, platform)
        return self

    def body(self, platform: str, *texts: str, **more: Any) -> dict[str, Any]:
        """A request for a thread of these texts."""
        first, *rest = texts
        target = {"accountId": self.alice.accounts[platform]["id"]}
        return {"targets": [target], "text": first, "thread": [{"text": text} for text in rest], **more}

    def thread(self, batch: str) -> list[dict[str, Any]]:
        """The rows of a batch, in order."""
        rows = self.rows(Post, batch=batch)
        return sorted(rows, key=lambda row: row["position"])

    def statuses(self, batch: str) -> list[str]:
        return [row["status"] for row in self.thread(batch)]

    def ended(self, batch: str, seconds: float = 60) -> list[str]:
        """The statuses, once no piece is open; what waits for a time does not wait for it here."""
        assert wait_for(lambda: self._is_over(batch), seconds, 0.01), (self.thread(batch), self.jobs())
        return self.statuses(batch)

    def _is_over(self, batch: str) -> bool:
        if all(status in ENDS for status in self.statuses(batch)):
            return True
        jobs, now = self.jobs(), self.clock.now_ms()
        if jobs and all(job["epoch"] is None and job["visible_at"] > now for job in jobs):
            self.pass_time((min(job["visible_at"] for job in jobs) - now) / 1000)
        return False

    def chain(self, platform: str) -> list[tuple[str | None, str | None]]:
        """What is public, in order: each text, and the text of what it replies to."""
        entries = self.lab.lab.ledger.entries(platform)
        texts = {entry.remote_id: entry.text for entry in entries}
        return [(entry.text, texts.get(parent_of(entry.request)) or parent_of(entry.request)) for entry in entries]


def parent_of(request: Any) -> str | None:
    """The remote id of the post that a public call replies to."""
    if "record" in request:
        return request["record"].get("reply", {}).get("parent", {}).get("uri")
    return (request.get("reply") or {}).get("in_reply_to_tweet_id") or request.get("reply_to_id")


def chained(*texts: str) -> list[tuple[str, str | None]]:
    """The chain of a thread that is whole."""
    return list(zip(texts, (None, *texts), strict=False))


def make_unknown(server: AppServer, post: str) -> None:
    """Let the outcome of a failed post be unknown, as after a lost response and lookups that found nothing."""
    error = {"code": "platform_unavailable", "message": "lost", "rule": "publish.outcome_unknown", "docUrl": "x"}

    def lose(tx: Any) -> None:
        Post.update(error=json.dumps(error)).where(Post.id == post).execute()
        Intent.update(outcome="unknown").where(Intent.post == post).execute()

    server.service.write(lose).result()


def publish_by_hand(server: ThreadServer, batch: str, post: str) -> str:
    """Publish a failed piece as its owner would, and let its outcome be unknown; return its address."""
    (row,) = server.rows(Post, id=post)
    platform, previous = row["platform"], json.loads(row["previous"])
    options = {
        "bluesky": {"replyToUri": previous["uri"], "replyToCid": previous["cid"]},
        "threads": {"replyToId": previous["remote_id"]},
        "twitter": {"replyToTweetId": previous["remote_id"]},
    }[platform]
    target = {"accountId": row["account"], "options": {"platform": platform, **options}}
    answer = server.alice.api.publish({"targets": [target], "text": row["text"]}).json()
    assert server.ended(answer["id"]) == ["published"]
    (made,) = server.thread(answer["id"])
    make_unknown(server, post)
    return str(made["platform_uri"])


def fail(server: ThreadServer, platform: str, nth: int | None = None) -> None:
    """Let the nth public call on this platform from now on, or each, fail without an effect."""
    server.lab.lab.faults.clear()
    line = {"fault": "status:429", "platform": platform, "operation": f"*{PUBLIC_CALLS[platform]}"}
    server.lab.lab.faults.add([line if nth is None else line | {"nth": nth}])


def accept(server: ThreadServer, platform: str, *texts: str, **more: Any) -> dict[str, Any]:
    """The batch, as accepted."""
    answer = server.alice.api.publish(server.body(platform, *texts, **more))
    assert answer.status_code in (200, 202), answer.text
    return dict(answer.json())


def own(platform: str, name: str, texts: tuple[str, ...] = FIVE) -> tuple[str, ...]:
    return tuple(f"{name} {platform} {text}" for text in texts)


def public(server: ThreadServer, platform: str, texts: tuple[str, ...]) -> list[Any]:
    return [entry for entry in server.chain(platform) if entry[0] in texts]


def scheduled(threads: ThreadServer, platform: str, name: str, seconds: int = 3600) -> list[dict[str, Any]]:
    """The rows of a thread of three that is due later."""
    at = format_instant(threads.clock.now_ms() + seconds * 1000)
    batch = accept(threads, platform, *own(platform, name, FIVE[:3]), scheduledAt=at)["id"]
    return threads.thread(batch)
