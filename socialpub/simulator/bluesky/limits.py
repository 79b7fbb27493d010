"""Rate limits of the server, off unless the setting `rateLimits` is on.

Source: docs.bsky.app, "Rate limits", and recorded responses of @atproto/pds 0.5.35 with limits on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from socialpub.base.runtime import Clock
from socialpub.simulator.bluesky.xrpc import Request, error
from socialpub.simulator.contract import FakeResponse, RefusedError

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


@dataclass(frozen=True)
class Limit:
    """Points allowed in a window that starts with the first charge."""

    points: int
    seconds: int


@dataclass(frozen=True)
class Charge:
    """Cost of a call: `points` of a limit, counted for `key`."""

    key: str
    limit: Limit
    points: int = 1


_EVERYTHING = Limit(3000, 5 * _MINUTE)
_WRITES = (Limit(5000, _HOUR), Limit(35_000, _DAY))
_LOGINS = (Limit(30, 5 * _MINUTE), Limit(300, _DAY))
_UPLOADS = Limit(1000, _DAY)
_WRITE_POINTS: Mapping[str, int] = {"create": 3, "update": 2, "delete": 1}


def _write(action: str) -> Callable[[Request], list[Charge]]:
    return lambda request: _writes(request, _WRITE_POINTS[action])


def _batch(request: Request) -> list[Charge]:
    actions = (str(write["$type"]).rpartition("#")[2] for write in request.input["writes"])
    return _writes(request, sum(_WRITE_POINTS.get(action, 0) for action in actions))


def _writes(request: Request, points: int) -> list[Charge]:
    return [Charge(f"write {request.did}", limit, points) for limit in _WRITES]


def _login(request: Request) -> list[Charge]:
    return [Charge(f"login {request.input['identifier']}", limit) for limit in _LOGINS]


def _upload(request: Request) -> list[Charge]:
    return [Charge(f"upload {request.did}", _UPLOADS)]


_CHARGES: Mapping[str, Callable[[Request], list[Charge]]] = {
    "com.atproto.server.createSession": _login,
    "com.atproto.repo.createRecord": _write("create"),
    "com.atproto.repo.putRecord": _write("update"),
    "com.atproto.repo.deleteRecord": _write("delete"),
    "com.atproto.repo.applyWrites": _batch,
    "com.atproto.repo.uploadBlob": _upload,
}


def charges(nsid: str, request: Request) -> list[Charge]:
    """List what a call of this method costs, besides its share of the global limit."""
    charged = _CHARGES.get(nsid)
    return [Charge("everything", _EVERYTHING), *(charged(request) if charged else [])]


@dataclass
class _Window:
    ends_ms: int
    used: int = 0


@dataclass
class Limiter:
    """Counter of the charges. It assumes a single client address, that of the tests."""

    clock: Clock
    _windows: dict[tuple[str, Limit], _Window] = field(default_factory=dict)

    def take(self, charged: Iterable[Charge]) -> dict[str, str]:
        """Charge a call; return the headers of the tightest limit, or raise the server's refusal."""
        states = [(charge.limit, self._use(charge)) for charge in charged]
        for limit, window in states:
            if window.used > limit.points:
                raise self._refusal(limit, window)
        limit, window = min(states, key=lambda state: state[0].points - state[1].used)
        return _headers(limit, window)

    def _use(self, charge: Charge) -> _Window:
        now, place = self.clock.now_ms(), (charge.key, charge.limit)
        window = self._windows.get(place)
        if window is None or window.ends_ms <= now:
            window = self._windows[place] = _Window(now + charge.limit.seconds * 1000)
        window.used += charge.points
        return window

    def _refusal(self, limit: Limit, window: _Window) -> RefusedError:
        answer = error(429).answer
        wait = math.ceil((window.ends_ms - self.clock.now_ms()) / 1000)
        headers = {**answer.headers, **_headers(limit, window), "retry-after": str(wait)}
        return RefusedError(FakeResponse(429, answer.body, headers))

    def clear(self) -> None:
        self._windows.clear()


def _headers(limit: Limit, window: _Window) -> dict[str, str]:
    return {
        "ratelimit-limit": str(limit.points),
        "ratelimit-remaining": str(max(limit.points - window.used, 0)),
        "ratelimit-reset": str(window.ends_ms // 1000),
        "ratelimit-policy": f"{limit.points};w={limit.seconds}",
    }
