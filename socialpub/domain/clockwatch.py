"""Whether the wall clock can be trusted: it was not set ahead while we ran, and not far ahead while we did not.

A clock that jumps ahead would publish tomorrow's posts now. Jumps back need no guard: states decide, not times.
"""

from __future__ import annotations

import email.utils
import logging
import threading

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.base.runtime import Clock
from socialpub.domain.service import Service

log = logging.getLogger("socialpub.clock")

DRIFT_MS = 120_000
AWAY_MS = 48 * 3600 * 1000
PROBE_SECONDS = 5.0


class ClockWatch:
    """Compares wall time with monotonic time since the last moment at which the wall clock was trusted."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._offset = self._now()

    def _now(self) -> float:
        return self._clock.now_ms() - self._clock.monotonic() * 1000

    def jumped(self) -> bool:
        """Whether the wall clock is now more than 120 s ahead of where it should be."""
        with self._lock:
            offset = self._now()
            self._offset = min(self._offset, offset)
            return offset - self._offset > DRIFT_MS

    def trust(self) -> None:
        """The wall clock is right as it stands."""
        with self._lock:
            self._offset = self._now()


def was_away(seen_at: int, now: int) -> bool:
    """Whether the start is so long after the last sign of life that the clock may be wrong."""
    return bool(seen_at and now > seen_at + AWAY_MS)


def upstream_agrees(service: Service) -> bool:
    """Whether the `Date` of a platform's answer is within 120 s of our clock; False also when none answers."""
    for url in _hosts(service):
        date = _date(service, url)
        if date is None:
            continue
        off = service.now_ms - date
        if abs(off) <= DRIFT_MS:
            return True
        log.warning("the clock of this machine differs by %d s from that of %s", off // 1000, url)
    return False


def _hosts(service: Service) -> list[str]:
    sites = [service.sites[name] for name in platforms.CONNECTORS if service.sites[name].enabled]
    named = [value for site in sites for value in site.model_dump().values() if isinstance(value, str)]
    return list(dict.fromkeys(value for value in named if value.startswith(("http://", "https://"))))


def _date(service: Service, url: str) -> int | None:
    with service.runtime.open_http(service.runtime.http_policy(guarded=False)) as http:
        try:
            text = http.request("GET", url, deadline=PROBE_SECONDS).headers.get("date", "")
        except ApiError:
            return None
    try:
        return int(email.utils.parsedate_to_datetime(text).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None
