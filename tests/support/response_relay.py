"""Relay in front of a fake platform that rewrites one response into an odd one."""

from __future__ import annotations

import http.client
import re
import socket
from urllib.parse import urlsplit

from tests.support.connection_server import ConnectionServer
from tests.support.odd_responses import ODD_RESPONSES, OddResponse, read_request

_DROPPED = ("connection", "content-length", "transfer-encoding", "keep-alive", "host")


class ResponseRelay:
    """Passes every request on to `origin`, and answers those whose `METHOD path` matches `public` as `odd` says."""

    def __init__(self, origin: str, public: str) -> None:
        self.odd: OddResponse = ODD_RESPONSES[0]
        self.answered = 0  # public calls
        self._to, self._public = urlsplit(origin), re.compile(public)
        self._server = ConnectionServer(self._talk)
        self.origin = f"http://127.0.0.1:{self._server.port}"

    def match(self, public: str) -> None:
        """Change which requests are answered as `odd` says."""
        self._public = re.compile(public)

    def is_public(self, method: str, url: str) -> bool:
        """Whether this is the call that publishes."""
        return self._public.search(f"{method} {urlsplit(url).path}") is not None

    def close(self) -> None:
        self._server.close()

    def _talk(self, connection: socket.socket) -> None:
        request = read_request(connection)
        if not request:
            return
        head, _, body = request.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        status, headers, content = self._passed_on(method, target, lines, body)
        odd = ODD_RESPONSES[0]
        if self.is_public(method, target):
            self.answered += 1
            odd = self.odd
        odd.say(connection, status, headers, content)

    def _passed_on(self, method: str, target: str, lines: list[str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        upstream = http.client.HTTPConnection(self._to.hostname or "", self._to.port or 80, timeout=30)
        try:
            upstream.request(
                method, target, body or None, _forwarded_headers(dict(line.split(": ", 1) for line in lines))
            )
            found = upstream.getresponse()
            content = found.read().replace(self._to.geturl().encode(), self.origin.encode())  # where uploads go
            return found.status, _forwarded_headers(dict(found.getheaders())), content
        finally:
            upstream.close()


def _forwarded_headers(headers: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in headers.items() if name.lower() not in _DROPPED}
