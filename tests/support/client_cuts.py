"""Transports of the Python client that cut and replace answers, by a plan of faults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from socialpub_client import Request, Response, TransportError
from socialpub_client.http_transport import AsyncHttpTransport, HttpTransport

ENVELOPE = {"error": {"code": "platform_unavailable", "message": "Busy.", "rule": "http.busy", "docUrl": "/docs"}}
LIMITED = {"error": {"code": "rate_limited", "message": "Too many.", "docUrl": "/docs"}}
BAD_GATEWAY = Response(502, {"content-type": "text/html"}, b"<h1>502 Bad Gateway</h1>")

FORGED = {
    "429": Response(429, {"retry-after": "0"}, json.dumps(LIMITED).encode()),
    "429 for a minute": Response(429, {"retry-after": "60"}, json.dumps(LIMITED).encode()),
    "503": Response(503, {"retry-after": "0"}, json.dumps(ENVELOPE).encode()),
    "502": BAD_GATEWAY,
    "504": Response(504, {}, b""),
}
"""Answers in place of the server, which does not get the request."""
FAULTS = ("refused", "reset before", "reset after", "429", "503", "502 after", "500 after", "200 after")


def _before(fault: str | None) -> Response | None:
    """The answer in place of the server's, if it does not get the request."""
    if fault == "refused":
        raise TransportError("refused", sent=False)
    if fault == "reset before":
        raise TransportError("reset", sent=True)
    return FORGED.get(fault or "")


def _after(fault: str | None, response: Response) -> Response:
    """The answer that arrives, of a request that the server has answered."""
    if fault == "reset after":
        raise TransportError("reset", sent=True)
    if fault is not None and fault.endswith(" after"):
        return Response(int(fault.split()[0]), {}, b"<h1>Error</h1>")
    return response


@dataclass
class CuttingTransport:
    """Transport of `Socialpub` whose requests meet the faults of a plan; after the plan, none."""

    faults: Iterator[str | None] = field(default_factory=lambda: iter(()))
    requests: list[Request] = field(default_factory=list)
    inner: HttpTransport = field(default_factory=HttpTransport)

    def send(self, request: Request) -> Response:
        """Send a request, or not."""
        self.requests.append(request)
        fault = next(self.faults, None)
        return _before(fault) or _after(fault, self.inner.send(request))

    def close(self) -> None:
        """Close the connections."""
        self.inner.close()


@dataclass
class AsyncCuttingTransport:
    """Transport of `AsyncSocialpub` whose requests meet the faults of a plan; after the plan, none."""

    faults: Iterator[str | None] = field(default_factory=lambda: iter(()))
    requests: list[Request] = field(default_factory=list)
    inner: AsyncHttpTransport = field(default_factory=AsyncHttpTransport)

    async def send(self, request: Request) -> Response:
        """Send a request, or not."""
        self.requests.append(request)
        fault = next(self.faults, None)
        return _before(fault) or _after(fault, await self.inner.send(request))

    async def close(self) -> None:
        """Close the connections."""
        await self.inner.close()
