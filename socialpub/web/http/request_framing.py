"""Strict request framing (RFC 9112), checked on the raw bytes before they are parsed.

Two recipients that parse the same bytes differently disagree on where a request ends, so an attacker can hide a second
request in the first (request smuggling). Sanic's parser accepts what the RFC forbids: white space before a colon,
folded lines, lone CR and LF, no Host or several, chunks of another length than they declare.

Errors become a 400 (`sanic_overrides.StrictHttp`). Matching takes linear time: possessive quantifiers do not backtrack.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

CHUNK_LINE_MAX = 256  # bytes of a chunk-size line with its extensions, which are ignored

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_HEAD = re.compile(
    rb"(?P<method>" + _TOKEN + rb") (?P<target>[\x21-\x7e]++) HTTP/(?P<version>[0-9]\.[0-9])"
    rb"(?:\r\n" + _TOKEN + rb":[\t\x20-\x7e\x80-\xff]*+)*+"
)
_FIELD = re.compile(rb"\r\n(host|content-length|transfer-encoding):([^\r]*+)", re.IGNORECASE)
_TARGET = re.compile(rb"(?:(?i:https?)://(?P<authority>[^/?#]++)(?:[/?#].*+)?+|/.*+)")
_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]++\]|[0-9A-Za-z\-._~!$&'()*+,;=%]*+)(?::[0-9]*+)?+")
_LENGTH = re.compile(rb"[0-9]{1,20}")
# Sanic's buffer when it reads a chunk size: the line end of the previous data, then the chunk header.
_CHUNK = re.compile(rb"\r\n[0-9A-Fa-f]{1,16}+(?:;[\t\x20-\x7e\x80-\xff]*+)?+\r\n")
_PARTIAL_CHUNK = re.compile(rb"(?:\r(?:\n(?:[0-9A-Fa-f]{1,16}+(?:;[\t\x20-\x7e\x80-\xff]*+)?+\r?)?+)?+)?+")
_LONE_LINE_FEED = re.compile(rb"(?<!\r)\n")


class FramingError(ValueError):
    """The bytes are no unambiguous request; the message says why."""


def check_head(head: bytes) -> None:
    """Raise FramingError unless `head` (up to the empty line) is a valid RFC 9112 request head."""
    found = _HEAD.fullmatch(head)
    if found is None:
        raise FramingError("the request line or a header line violates RFC 9112")
    version = found["version"]
    if version not in (b"1.0", b"1.1"):
        raise FramingError("the version is neither HTTP/1.0 nor HTTP/1.1")
    hosts, lengths, codings = _framing_fields(head)
    _check_target(found["method"], found["target"], hosts)
    if len(hosts) > 1 or (not hosts and version == b"1.1"):
        raise FramingError("the request has not exactly one Host")
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise FramingError("the Host is invalid")
    if codings and version == b"1.0":
        raise FramingError("HTTP/1.0 has no Transfer-Encoding")
    if codings and (lengths or codings != [b"chunked"]):
        raise FramingError("the body is not framed by `Transfer-Encoding: chunked` alone")
    if lengths and (len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0])):
        raise FramingError("the Content-Length is not one number")


def has_lone_line_feed(before: bytes, data: bytes) -> bool:
    """Return whether `data`, the next bytes of a head, has an LF without CR.

    False if the head ends in `data`.

    `before`: the last three bytes of the head before `data`, or fewer at its start.
    """
    head = before + data
    return b"\n" in data and b"\r\n\r\n" not in head and _LONE_LINE_FEED.search(head, len(before)) is not None


def _framing_fields(head: bytes) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Return the values of Host, Content-Length and Transfer-Encoding (lower case)."""
    fields: dict[bytes, list[bytes]] = {b"host": [], b"content-length": [], b"transfer-encoding": []}
    for name, value in _FIELD.findall(head):
        fields[name.lower()].append(value.strip(b" \t"))
    return fields[b"host"], fields[b"content-length"], [value.lower() for value in fields[b"transfer-encoding"]]


def _check_target(method: bytes, target: bytes, hosts: Sequence[bytes]) -> None:
    """Raise FramingError unless the target is a path, a URL of the Host, or `*` for OPTIONS."""
    found = _TARGET.fullmatch(target)
    if found is None and not (target == b"*" and method == b"OPTIONS"):
        raise FramingError("the request target is neither a path nor an http address")
    authority = found["authority"] if found else None
    if authority is not None and [authority.lower()] != [host.lower() for host in hosts]:
        raise FramingError("the request target names another host than the Host")


def is_chunk_header(buffer: bytes | bytearray) -> bool:
    """Return whether `buffer` begins with a line end and a whole chunk header.

    The line end belongs to the previous chunk. False means that more bytes are needed.
    Raises FramingError for bytes that cannot become a chunk header.
    """
    end = buffer.find(b"\r\n", 2, CHUNK_LINE_MAX)
    if end >= 0:
        if _CHUNK.fullmatch(buffer, 0, end + 2):
            return True
    elif len(buffer) < CHUNK_LINE_MAX and _PARTIAL_CHUNK.fullmatch(buffer):
        return False
    raise FramingError("a chunk violates RFC 9112")
