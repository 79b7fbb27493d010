"""Reference HTTP parsers for request framing: llhttp (httptools) and h11, one request each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import h11
import httptools

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True)
class ParsedRequest:
    """A request that was read whole. `end`: the offset in the stream behind it; `stays`: the connection goes on."""

    method: bytes
    target: bytes
    headers: Headers  # names in small letters
    body: bytes
    end: int
    stays: bool = field(default=True, compare=False)


REFUSED = "refused"
MORE = "more"  # what is there is not a whole request
Verdict = ParsedRequest | str
Reader = Callable[[bytes, int], Verdict]


class LlhttpEvents:
    """What httptools tells of one request. `done`: it is whole; `stays`: the connection goes on after it."""

    parser: Any

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.target, self.body, self.done, self.stays = b"", b"", False, False

    def on_url(self, piece: bytes) -> None:
        self.target += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        self.done, self.stays = True, bool(self.parser.should_keep_alive())


def read_by_llhttp(data: bytes, start: int) -> Verdict:
    """What llhttp, without any of its leniencies, reads at an offset. It says no offset, so it gets single bytes."""
    heard = LlhttpEvents()
    parser = heard.parser = httptools.HttpRequestParser(heard)
    for at in range(start, len(data)):
        try:
            parser.feed_data(data[at : at + 1])
        except httptools.HttpParserUpgrade:
            heard.stays = False
        except httptools.HttpParserError:
            return REFUSED
        if heard.done:
            headers = tuple(heard.headers)
            return ParsedRequest(parser.get_method(), heard.target, headers, heard.body, at + 1, heard.stays)
    return MORE


def read_by_h11(data: bytes, start: int) -> Verdict:
    """What h11 reads at an offset."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=65536)
    connection.receive_data(data[start:])
    found = ParsedRequest(b"", b"", (), b"", 0)
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            return REFUSED
        if isinstance(event, h11.Request):
            found = replace(found, method=event.method, target=event.target, headers=tuple(event.headers))
        elif isinstance(event, h11.Data):
            found = replace(found, body=found.body + bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            stays = connection.their_state is not h11.MUST_CLOSE
            return replace(found, end=len(data) - len(connection.trailing_data[0]), stays=stays)
        else:
            return MORE
