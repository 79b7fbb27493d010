"""Whether the wall clock can be trusted: it was not set ahead while we ran, and not while we did not.

A clock that jumps ahead would publish tomorrow's posts now. A jump back publishes nothing early: what waits for a
moment is late by as much as the clock is, and what only waits for a while goes on waiting that while.
"""

from __future__ import annotations

import email.utils
import logging
import threading

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.base.runtime import Clock
from socialpub.domain.context.app_context import AppContext
from socialpub.store.schema.models import Account

log = logging.getLogger("socialpub.clock")

DRIFT_MS = 120_000
STEP_BACK_MS = 1000  # less is a clock being kept right
PROBE_SECONDS = 5.0


class ClockWatch:
    """Compares wall time with monotonic time since the last moment at which the wall clock was trusted."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._offset = self._seen = self._now()

    def _now(self) -> float:
        return self._clock.now_ms() - self._clock.monotonic() * 1000

    def jumped(self) -> bool:
        """Whether the wall clock is now more than 120 s ahead of where it should be."""
        with self._lock:
            offset = self._now()
            self._offset = min(self._offset, offset)
            return offset - self._offset > DRIFT_MS

    def went_back(self) -> int:
        """By how much the wall clock was set back since the last look, in milliseconds."""
        with self._lock:
            offset = self._now()
            back, self._seen = int(self._seen - offset), offset
        return back if back >= STEP_BACK_MS else 0

    def trust(self) -> None:
        """The wall clock is right as it stands."""
        with self._lock:
            self._offset = self._now()


def is_doubtful(seen_at: int, now: int) -> bool:
    """Whether a start is so long after the last sign of life that the clock may as well have been set ahead."""
    return bool(seen_at and now > seen_at + DRIFT_MS)


def is_confirmed_upstream(service: AppContext) -> bool:
    """Whether the `Date` of a platform's answer is within 120 s of our clock; False also when none answers."""
    for url in _list_hosts(service):
        date = _fetch_date(service, url)
        if date is None:
            continue
        off = service.now_ms - date
        if abs(off) <= DRIFT_MS:
            return True
        log.warning("the clock of this machine differs by %d s from that of %s", off // 1000, url)
    return False


def _list_hosts(service: AppContext) -> list[str]:
    """The addresses of the platforms that accounts are connected at; of all, while there are none."""
    enabled = [name for name in platforms.CONNECTORS if service.sites[name].enabled]
    used = service.read(_list_connected_platforms).result()
    sites = [service.sites[name] for name in [name for name in enabled if name in used] or enabled]
    named = [value for site in sites for value in site.model_dump().values() if isinstance(value, str)]
    return list(dict.fromkeys(value for value in named if value.startswith(("http://", "https://"))))


def _list_connected_platforms() -> set[str]:
    query = Account.select(Account.platform).where(Account.disconnected_at.is_null()).distinct()
    return {row[0] for row in query.tuples()}


def _fetch_date(service: AppContext, url: str) -> int | None:
    with service.runtime.open_http(service.runtime.http_policy(guarded=False)) as http:
        try:
            text = http.request("GET", url, timeout=PROBE_SECONDS).headers.get("date", "")
        except ApiError:
            return None
    try:
        return int(email.utils.parsedate_to_datetime(text).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None
