"""Events: the log, read by pages or followed without end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from socialpub_client import errors
from socialpub_client.engine import Engine, read
from socialpub_client.error_kinds import classify
from socialpub_client.messages import Sleep, Steps
from socialpub_client.operations import Resource, listing, pause_if_early, streaming

Json = Mapping[str, Any]
PAGE = 200
WAIT = 25  # seconds that an answer without events waits at the server
END = "end"  # the cursor of "from now on"
DELAY_MAX = 30.0  # seconds between the tries of `follow`


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Event. `type` decides what `data` is; there are types that this client does not know.

    `cursor`: the place after this event, for `after` of the next call with the same `types`.
    """

    id: str
    type: str
    created_at: datetime
    organization_id: str
    data: Json = field(hash=False)
    cursor: str = field(default="", repr=False, compare=False)
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def parse(cls, data: Json, cursor: str = "") -> Event:
        """Read the JSON object of an event."""
        return cls(
            id=data["id"],
            type=data["type"],
            created_at=datetime.fromisoformat(data["createdAt"]),
            organization_id=data["organizationId"],
            data=data["data"],
            cursor=cursor,
            raw=data,
        )


class EventFeed:
    """Pages of the log, each from the end of the one before.

    The API's cursors are between pages. Within a page, a cursor is that of the page and the id of the event, so that
    the events after it are read, and those before it are not read again.
    """

    def __init__(
        self,
        engine: Engine,
        after: str | None,
        types: Iterable[str],
        limit: int,
        heartbeat: Callable[[str], None] | None = None,
    ) -> None:
        self._engine, self._heartbeat = engine, heartbeat
        self._params = {"type": tuple(types), "limit": limit, "profileId": engine.profile}
        start, _, self._last_seen = (after or "").partition("~")
        self.position: str | None = start or None
        self.next_cursor: str | None = after
        self._ended = False

    def advance(self) -> Steps[Sequence[Event] | None]:
        """Read the next page; None at the end."""
        if self._ended:
            return None
        events, more = yield from self.read_page(None)
        self._ended = not more
        self.next_cursor = self.position if more else None
        if not events and self._heartbeat is not None:
            self._heartbeat(self.position or "")
        return events

    def read_page(self, wait: float | None) -> Steps[tuple[tuple[Event, ...], bool]]:
        """Read the page at the position and move it; return its events and whether more exist."""
        params = {**self._params, "cursor": self.position}
        answer = yield from self._engine.request("GET", "/v1/events", params=params, wait=wait)
        events, next_cursor, end_cursor = read(self._parse, answer)
        self.position, self._last_seen = end_cursor, ""
        return events, next_cursor is not None

    def _parse(self, page: Json) -> tuple[tuple[Event, ...], str | None, str]:
        entries, end = page["data"], page["endCursor"]
        if page["nextCursor"] is not None and end == self.position:
            raise ValueError("the next page is this one again")
        ids = [each["id"] for each in entries]
        first = ids.index(self._last_seen) + 1 if self._last_seen in ids else 0
        start = self.position or ""
        cursors = [f"{start}~{each}" for each in ids[:-1]] + [end]
        events = tuple(Event.parse(each, cursor) for each, cursor in zip(entries, cursors, strict=False))
        return events[first:], page["nextCursor"], end


class FollowFeed:
    """Events as they come, without end; restarts of the server lose and repeat none."""

    def __init__(
        self,
        engine: Engine,
        after: str | None,
        types: Iterable[str],
        heartbeat: Callable[[str], None] | None,
        on_retry: Callable[[errors.SocialpubError], None] | None,
    ) -> None:
        self._engine, self._heartbeat, self._on_retry = engine, heartbeat, on_retry
        self._feed = EventFeed(engine, after or END, types, PAGE)
        self._failures = 0

    @property
    def next_cursor(self) -> str | None:
        return self._feed.position

    def advance(self) -> Steps[Sequence[Event] | None]:
        """Return the next events; none where there were none for some seconds."""
        asked = self._engine.runtime.monotonic()
        try:
            # The first request does not wait: were it cut off, "the end" would be a later place when asked again.
            waits = self._feed.position != END
            events, _ = yield from self._feed.read_page(WAIT if waits else None)
            if waits and not events:
                yield from pause_if_early(self._engine, asked)
        except errors.SocialpubError as error:
            if not classify(error).passes:
                raise
            if self._on_retry is not None:
                self._on_retry(error)
            self._failures += 1
            yield Sleep(self._delay(error))
            return ()
        self._failures = 0
        if not events and self._heartbeat is not None:
            self._heartbeat(self._feed.position or "")
        return events

    def _delay(self, error: errors.SocialpubError) -> float:
        bound = min(DELAY_MAX, 2.0 ** min(self._failures, 10))
        return min(DELAY_MAX, max(self._engine.runtime.random() * bound, float(error.retry_after or 0)))


class EventMethods(Resource):
    """The log of what happened."""

    @listing
    def list(
        self,
        *,
        after: str | None = None,
        types: Iterable[str] = (),
        limit: int = PAGE,
        heartbeat: Callable[[str], None] | None = None,
    ) -> EventFeed:
        """List events, oldest first; `after`: the cursor of an event.

        `heartbeat` is called with the place in the log where there is no event.
        """
        return EventFeed(self.engine, after, types, limit, heartbeat)

    @streaming
    def follow(
        self,
        *,
        after: str | None = None,
        types: Iterable[str] = (),
        heartbeat: Callable[[str], None] | None = None,
        on_retry: Callable[[errors.SocialpubError], None] | None = None,
    ) -> FollowFeed:
        """Yield events without end, those after a cursor or from now on.

        `heartbeat` is called with the place in the log where that is first known ("from now on"), and when there was
        no event for 25 seconds. `on_retry` is called with the error of a server that is away, before it is asked again.
        """
        return FollowFeed(self.engine, after, tuple(types), heartbeat, on_retry)
