"""Reference model of one account's posts: no database, queue or threads.

The model's platform has idempotency keys. The clock moves only on request, and due work is done at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

PlatformMode = Literal["fine", "refuses", "throttles", "takes and is not heard"]
MINUTE, HOUR = 60_000, 3_600_000
GRACE = HOUR
WAITS = (30_000, 2 * MINUTE, 8 * MINUTE)
FINAL = ("published", "canceled")


@dataclass
class ModelPost:
    """One post: what the log shows, what went out, and every event that told of it."""

    text: str
    due: int | None  # None: at once
    made: int
    status: str = "validated"
    at: int = 0  # when it is tried next
    tries: int = 0
    sent: bool = False
    events: list[str] = field(default_factory=list)

    def tell(self, *names: str) -> None:
        self.events += [f"post.{name}" for name in names]

    @property
    def open(self) -> bool:
        return self.status in ("queued", "validated", "publishing")


@dataclass
class PostModel:
    """All posts by their id, the time, and the platform's mood."""

    now: int
    posts: dict[str, ModelPost] = field(default_factory=dict)
    mood: PlatformMode = "fine"

    # --- What a person does ---

    def accept(self, post: str, text: str, due: int | None) -> None:
        self.posts[post] = entry = ModelPost(text, due, self.now)
        self._queue(entry, due)

    def retry(self, post: str, due: int | None) -> bool:
        entry = self.posts[post]
        if entry.status not in ("failed", "rejected"):
            return False
        entry.due, entry.tries = due, 0
        self._queue(entry, due)
        return True

    def _queue(self, entry: ModelPost, due: int | None) -> None:
        entry.status, entry.at = ("validated", self.now) if due is None else ("queued", due)
        entry.tell(*(["validated"] if due is None else ["queued", "validated"]))

    def move(self, post: str, due: int) -> bool:
        entry = self.posts[post]
        if entry.status != "queued":
            return False
        moved, entry.due, entry.at = entry.due != due, due, due
        if moved:
            entry.tell("rescheduled")
        return True

    def cancel(self, post: str) -> bool:
        entry = self.posts[post]
        if entry.status != "queued":
            return False
        entry.status = "canceled"
        entry.tell("canceled")
        return True

    # --- What time does ---

    def pass_(self, ms: int) -> None:
        """The server was down, or asleep, for so long: what is too late now fails, the rest is made up for."""
        self.now += ms
        for entry in self._due():
            if entry.status != "publishing" and entry.at < self.now - GRACE:
                self._end(entry, "failed")

    def run(self) -> None:
        """Everything that is due is tried once."""
        for entry in self._due():
            self._attempt(entry)
        if self.mood == "takes and is not heard":
            self.mood = "fine"

    def _due(self) -> Iterator[ModelPost]:
        return (entry for entry in self.posts.values() if entry.open and entry.at <= self.now)

    def _attempt(self, entry: ModelPost) -> None:
        if self.mood == "fine":
            entry.sent = True
            self._end(entry, "published")
        elif self.mood == "refuses":
            self._end(entry, "rejected")
        elif self.mood == "throttles":
            self._throttled(entry)
        else:
            entry.sent, entry.status, entry.at = True, "publishing", self.now + 1_000

    def _throttled(self, entry: ModelPost) -> None:
        entry.tries += 1
        if entry.due is None or entry.tries > len(WAITS):
            self._end(entry, "failed")
            return
        entry.status, entry.at = "validated", self.now + WAITS[entry.tries - 1]
        entry.tell("failed")  # willRetry

    def _end(self, entry: ModelPost, status: str) -> None:
        entry.status = status
        entry.tell(status)
