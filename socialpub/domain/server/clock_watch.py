"""Detection of a wall clock that was set, while the server runs or while it is stopped.

A clock set ahead would publish tomorrow's posts now. A clock set back publishes nothing early: scheduled posts are late
by that step, and delays are shortened by it.
"""

from __future__ import annotations

import email.utils
import logging
import threading
from urllib.parse import urlsplit

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.base.runtime import Clock
from socialpub.domain.context.app_context import AppContext
from socialpub.store.schema.models import Account

log = logging.getLogger("socialpub.clock")

DRIFT_MS = 120_000
STEP_BACK_MS = 1000  # smaller steps are normal corrections
PROBE_SECONDS = 5.0


class ClockWatch:
    """Compares wall time with monotonic time since the wall clock was last trusted."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._offset = self._seen = self._now()

    def _now(self) -> float:
        return self._clock.now_ms() - self._clock.monotonic() * 1000

    def has_jumped(self) -> bool:
        """Return whether the wall clock is now more than 120 s ahead."""
        with self._lock:
            offset = self._now()
            self._offset = min(self._offset, offset)
            return offset - self._offset > DRIFT_MS

    def measure_step_back(self) -> int:
        """Return by how many ms the clock was set back since the last call; 0 if under 1000."""
        with self._lock:
            offset = self._now()
            back, self._seen = int(self._seen - offset), offset
        return back if back >= STEP_BACK_MS else 0

    def trust(self) -> None:
        """Trust the wall clock as it is now."""
        with self._lock:
            self._offset = self._now()


def is_doubtful(seen_at: int, now: int) -> bool:
    """Return whether the last heartbeat is so old that the clock may have been set ahead."""
    return bool(seen_at and now > seen_at + DRIFT_MS)


def is_confirmed_upstream(service: AppContext) -> bool:
    """Return whether the `Date` header of a platform is within 120 s of our clock."""
    for url in _list_hosts(service):
        date = _fetch_date(service, url)
        if date is None:
            continue
        drift = service.now_ms - date
        if abs(drift) <= DRIFT_MS:
            return True
        log.warning("the clock of this machine differs by %d s from that of %s", drift // 1000, url)
    return False


def _list_hosts(service: AppContext) -> list[str]:
    """List an address per host of the platforms with accounts, or of all enabled ones."""
    enabled = [name for name in platforms.CONNECTORS if service.sites[name].enabled]
    used = service.read(_list_connected_platforms).result()
    sites = [service.sites[name] for name in [name for name in enabled if name in used] or enabled]
    values = [value for site in sites for value in site.model_dump().values() if isinstance(value, str)]
    urls = [value for value in values if value.startswith(("http://", "https://"))]
    return list({urlsplit(url).netloc: url for url in reversed(urls)}.values())


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
