"""Transports over httpx: the one module that imports it."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import httpx

from socialpub_client.errors import ConfigurationError, InvalidArgument
from socialpub_client.messages import FileUpload, Request, Response, TransportError

Http = TypeVar("Http")
_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=15)
_DIRECT = {f"all://{host}": None for host in ("localhost", "127.0.0.1", "[::1]")}
"""Addresses for which the environment's proxies are not asked: they would get the key in the clear, and name another
machine."""


class HttpTransport:
    """Transport of `Socialpub`: thread-safe; a forked process makes its own connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[int, httpx.Client] = {}
        """By process. That of the parent is kept as it is: closing it would end the parent's connections."""

    def send(self, request: Request) -> Response:
        """Return the response. Raises TransportError without one."""
        body = request.body
        content = body if isinstance(body, bytes) else body.pieces()
        try:
            with self._client().stream(
                request.method, request.url, headers=_headers(request), content=content, timeout=_timeout(request)
            ) as response:
                deadline, pieces = _Deadline(request), list[bytes]()
                for piece in response.iter_bytes():
                    deadline.check()
                    pieces.append(piece)
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise _failure(request, error) from None
        return _response(response, pieces)

    def _client(self) -> httpx.Client:
        with self._lock:
            client = self._clients.get(os.getpid())
            if client is None:
                client = self._clients[os.getpid()] = _open(httpx.Client)
            return client

    def close(self) -> None:
        """Close the connections of this process."""
        with self._lock:
            client = self._clients.pop(os.getpid(), None)
        if client is not None:
            client.close()


class AsyncHttpTransport:
    """Transport of `AsyncSocialpub`: for the tasks of one event loop."""

    def __init__(self) -> None:
        self._http = _open(httpx.AsyncClient)

    async def send(self, request: Request) -> Response:
        """Return the response. Raises TransportError without one."""
        body = request.body
        content = body if isinstance(body, bytes) else _pieces(body)
        try:
            async with self._http.stream(
                request.method, request.url, headers=_headers(request), content=content, timeout=_timeout(request)
            ) as response:
                deadline, pieces = _Deadline(request), list[bytes]()
                async for piece in response.aiter_bytes():
                    deadline.check()
                    pieces.append(piece)
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise _failure(request, error) from None
        return _response(response, pieces)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _open(kind: Callable[..., Http]) -> Http:
    """Return a client of httpx. Raises ConfigurationError.

    The environment may name proxies and certificates that cannot be used.
    """
    try:
        return kind(limits=_LIMITS, follow_redirects=False, mounts=_DIRECT)
    except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
        raise ConfigurationError(
            f"The environment names a proxy or certificates that cannot be used: {error}",
            remediation="Correct HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE or SSL_CERT_DIR.",
        ) from None


async def _pieces(body: FileUpload) -> AsyncIterator[bytes]:
    """Yield a body whose file is read in a thread."""
    pieces = body.pieces()
    while (piece := await asyncio.to_thread(next, pieces, b"")) != b"":
        yield piece


def _headers(request: Request) -> dict[str, str]:
    length = None if isinstance(request.body, bytes) else request.body.length
    return {**request.headers, **({} if length is None else {"Content-Length": str(length)})}


def _timeout(request: Request) -> httpx.Timeout:
    given = request.timeout
    return httpx.Timeout(connect=given.connect, write=given.write, read=given.read, pool=given.connect + given.read)


class _Deadline:
    """End of the time for a response's body.

    httpx bounds each read, and a server may send single bytes.
    """

    def __init__(self, request: Request) -> None:
        self._seconds = request.timeout.read
        self._end = time.monotonic() + self._seconds

    def check(self) -> None:
        """Raise ReadTimeout after the end."""
        if time.monotonic() > self._end:
            raise httpx.ReadTimeout(f"no whole answer in {self._seconds:g} s")


def _failure(request: Request, error: httpx.RequestError | httpx.InvalidURL) -> Exception:
    """Convert an error of httpx, without its text, which may hold parts of the request."""
    if isinstance(error, httpx.InvalidURL):
        return InvalidArgument("The address of the request is too long, or has control characters.")
    never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    reason = str(error) if never_sent else ""
    about = f"{type(error).__name__}{f': {reason}' if reason else ''}"
    return TransportError(f"{request.method} {request.url} had no answer ({about}).", sent=not never_sent)


def _response(response: httpx.Response, pieces: list[bytes]) -> Response:
    return Response(response.status_code, dict(response.headers), b"".join(pieces))
