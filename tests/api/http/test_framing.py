"""Request framing by RFC 9112, compared with llhttp and h11 on generated streams."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from socialpub.web.http.request_framing import CHUNK_LINE_MAX, FramingError, check_head
from tests.support import raw_http
from tests.support.app_server import AppServer, Person, unchanged
from tests.support.framing_parsers import MORE, REFUSED, ParsedRequest, Verdict, read_by_h11, read_by_llhttp
from tests.support.framing_server import ConnectionRecord, StreamClient, running_framing_server
from tests.support.framing_streams import make_stream
from tests.support.table_checks import check_rows

STREAMS, ALL_STREAMS = 2_000, 20_000

# What the server refuses although both others take it (or would, once the rest has come), and why that is right.
STRICTER = {
    "the Host is invalid": "RFC 9112 3.2: a server MUST answer 400 to an invalid Host",
    "HTTP/1.0 has no Transfer-Encoding": "RFC 9112 6.1: such a message MUST be treated as if its framing is faulty",
    "the version is neither HTTP/1.0 nor HTTP/1.1": "nothing else is spoken here; the framing of HTTP/2 is another",
    "the request target is neither a path nor an http address": "this server is no proxy: RFC 9112 3.2",
    "the request target names another host than the Host": "RFC 9112 3.2.2: which one is meant must not be guessed",
}
TOO_LARGE = "413: more than is taken here, known from the head"
EXPECTED = "417: an expectation other than 100-continue cannot be met, RFC 9110 10.1.1"
TRAILER = "a trailer: nothing here reads one, and Sanic refuses it so that none is taken for a request"
LONG_LINE = "RFC 9112 7.1.1: the length of chunk extensions is to be limited"
_TRAILER = re.compile(rb"\r\n0+(?:;[^\r\n]*)?\r\n(?!\r\n).", re.DOTALL)


def reason_of(data: bytes, start: int, status: int | None, other: Verdict) -> str | None:
    """Why it is right to refuse what `other`, who reads it too, takes; None: there is no reason."""
    if status in (413, 417):
        return TOO_LARGE if status == 413 else EXPECTED
    head, _, rest = data[start:].partition(b"\r\n\r\n")
    try:
        check_head(head)
    except FramingError as error:
        return STRICTER.get(str(error))
    if max(map(len, rest.split(b"\r\n"))) >= CHUNK_LINE_MAX:
        return LONG_LINE
    end = other.end if isinstance(other, ParsedRequest) else len(data)
    return TRAILER if _TRAILER.search(data, start, end) else None


def differences(data: bytes, line: ConnectionRecord) -> Iterator[str]:
    """Where the server agrees with neither reader; reasons are told apart by their text."""
    start = 0
    for taken in line.taken:
        others = [read_by_llhttp(data, start), read_by_h11(data, start)]
        if taken not in others:
            yield f"TAKEN at {start}: {taken}, others: {others}"
            return
        if taken.stays and not any(isinstance(other, ParsedRequest) and other.stays for other in others):
            yield f"STAYS OPEN at {start}: {taken}, others: {others}"
        start = taken.end
        if not taken.stays:
            return
    others = [read_by_llhttp(data, start), read_by_h11(data, start)]
    if line.refused is not None and REFUSED not in others:
        yield reason_of(data, start, line.refused, others[0]) or f"REFUSED at {start}, others: {others}"
    elif line.starved and start < len(data) and not {MORE, REFUSED} & set(others):
        # Nothing is taken: what cannot become a request is refused once its end is there.
        yield f"WAITS at {start}, others: {others}"
    elif line.refused is None and not line.starved:
        yield f"CLOSED at {start}, others: {others}"


REASONS = {*STRICTER.values(), TOO_LARGE, EXPECTED, TRAILER, LONG_LINE}


def compare(client: StreamClient, seeds: range) -> Counter[str]:
    """Send each stream; how many requests were taken, and how often each reason for a difference was there."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        data = make_stream(seed)
        line = client.send(data)
        assert line.refused is None or 400 <= line.refused < 500, (seed, data, line.refused)
        counts["taken"] += len(line.taken)
        for told in differences(data, line):
            assert told in REASONS, (seed, data, told)
            counts[told] += 1
    return counts


@pytest.mark.slow
def test_2000_streams_are_read_as_llhttp_or_h11_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_framing_server(monkeypatch) as client:
        counts = compare(client, range(STREAMS))
    assert counts["taken"] > STREAMS / 2


@pytest.mark.slow
def test_20000_streams_are_read_as_llhttp_or_h11_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_framing_server(monkeypatch) as client:
        counts = compare(client, range(STREAMS, STREAMS + ALL_STREAMS))
    assert counts["taken"] > ALL_STREAMS / 2
    assert set(counts) - {"taken"} == REASONS, "each reason is one that is met"


# --- On the whole server: 400 in the envelope, the connection closed, and what follows is not read -----------------

HEADS = {
    "a name that is no token": ["Host: x", "X(A: b"],
    "a name of no ASCII": ["Host: x", "\xe9: b"],
    "no name": ["Host: x", ": b"],
    "no colon": ["Host: x", "nothing"],
    "a space before the colon": ["Host: x", "Content-Length : 3"],
    "a tab before the colon": ["Host: x", "X-A\t: b"],
    "a folded line": ["Host: x", "X-A: b", " c"],
    "a folded first line": [" Host: x", "Host: x"],
    "a lone LF": ["Host: x\nX-A: b"],
    "a lone CR": ["Host: x", "X-A: b\rX-B: c"],
    "a NUL": ["Host: x", "X-A: b\0c"],
    "another control character": ["Host: x", "X-A: b\vc"],
    "no Host": [],
    "two Hosts": ["Host: x", "Host: y"],
    "one Host twice": ["Host: x", "Host: x"],
    "a Host that is none": ["Host: x/y"],
    "a Host with a user": ["Host: a@x"],
    "a length with a sign": ["Host: x", "Content-Length: +3"],
    "a length below nothing": ["Host: x", "Content-Length: -3"],
    "a length in another base": ["Host: x", "Content-Length: 0x3"],
    "a length in other digits": ["Host: x", "Content-Length: \u0663"],
    "no length": ["Host: x", "Content-Length:"],
    "two lengths": ["Host: x", "Content-Length: 3", "Content-Length: 4"],
    "two lengths in a line": ["Host: x", "Content-Length: 3, 4"],
    "a length and chunks": ["Host: x", "Content-Length: 3", "Transfer-Encoding: chunked"],
    "chunks and a length": ["Host: x", "Transfer-Encoding: chunked", "Content-Length: 3"],
    "chunks twice": ["Host: x", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
    "another coding": ["Host: x", "Transfer-Encoding: gzip, chunked"],
    "a coding that only looks like it": ["Host: x", "Transfer-Encoding: \vchunked"],
}
LINES = {
    "chunks in HTTP/1.0": "POST /v1/posts HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked",
    "two Hosts in HTTP/1.0": "GET /v1/posts HTTP/1.0\r\nHost: x\r\nHost: y",
    "a lone LF after the request line": "GET /v1/posts HTTP/1.1\nHost: x",
    "two spaces": "GET  /v1/posts HTTP/1.1\r\nHost: x",
    "a tab": "GET\t/v1/posts HTTP/1.1\r\nHost: x",
    "a method that is no token": "GE(T /v1/posts HTTP/1.1\r\nHost: x",
    "no method": " /v1/posts HTTP/1.1\r\nHost: x",
    "a target without a slash": "GET v1/posts HTTP/1.1\r\nHost: x",
    "a target of another scheme": "GET ftp://x/v1/posts HTTP/1.1\r\nHost: x",
    "a target of another host": "GET http://y/v1/posts HTTP/1.1\r\nHost: x",
    "a target that is none": "GET * HTTP/1.1\r\nHost: x",
    "a control character in a target": "GET /v1/\x01 HTTP/1.1\r\nHost: x",
    "a target of a tunnel": "CONNECT x:443 HTTP/1.1\r\nHost: x:443",
    "another version": "GET /v1/posts HTTP/1.2\r\nHost: x",
    "a version in small letters": "GET /v1/posts http/1.1\r\nHost: x",
    "an empty line before it": "\r\nGET /v1/posts HTTP/1.1\r\nHost: x",
}
CHUNKED = {
    "a size that is none": "x\r\n{}\r\n0\r\n\r\n",
    "no size": "\r\n{}\r\n0\r\n\r\n",
    "a size with a sign": "+2\r\n{}\r\n0\r\n\r\n",
    "a size in another way": "0x2\r\n{}\r\n0\r\n\r\n",
    "a size in other digits": "\u0662\r\n{}\r\n0\r\n\r\n",
    "a space before the size": " 2\r\n{}\r\n0\r\n\r\n",
    "a space after the size": "2 \r\n{}\r\n0\r\n\r\n",
    "a size beyond all sizes": "f" * 17 + "\r\n{}\r\n0\r\n\r\n",
    "a lone LF after the size": "2\n{}\r\n0\r\n\r\n",
    "a lone CR after the size": "2\r{}\r\n0\r\n\r\n",
    "a lone LF in an extension": "2;a\nb\r\n{}\r\n0\r\n\r\n",
    "a NUL in an extension": "2;a=\0\r\n{}\r\n0\r\n\r\n",
    "an extension without end": f"2;{'a' * CHUNK_LINE_MAX}\r\n{{}}\r\n0\r\n\r\n",
    "a chunk that goes on after its end": "2\r\n{}xx0\r\n\r\n",
    "a lone LF after a chunk": "2\r\n{}\n0\r\n\r\n",
    "nothing after a chunk": "2\r\n{}0\r\n\r\n",
    "a trailer": "2\r\n{}\r\n0\r\nX-A: b\r\n\r\n",
    "a lone LF at the end": "2\r\n{}\r\n0\r\n\n",
}


def closes(sent: str, server: AppServer, status: int, **headers: str) -> raw_http.RawResponse:
    """The one answer to what was sent; a post that comes behind it on the connection is not taken."""
    body = json.dumps({"text": "behind", "targets": [{"platform": "bluesky"}]})
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    behind = f"POST /v1/posts HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {len(body)}\r\n\r\n{body}"
    with raw_http.connect(server) as sock:
        sock.sendall((sent + behind).encode())
        answer = raw_http.read_response(sock)
        assert answer.status == status, answer.body
        with contextlib.suppress(ConnectionResetError):  # closed with bytes that were not read
            assert sock.recv(1) == b"", "it answered what came behind"
    return answer


def test_a_head_that_others_could_read_otherwise_is_refused(server: AppServer, alice: Person) -> None:
    def is_refused(head: str) -> None:
        answer = closes(f"{head}\r\n\r\n", server, 400, Authorization=f"Bearer {alice.key}")
        assert (answer.error()["rule"], answer.headers["connection"]) == ("http.request", "close")

    lines = {name: "\r\n".join(["POST /v1/posts/validate HTTP/1.1", *more]) for name, more in HEADS.items()}
    with unchanged(server):
        check_rows(lines | LINES, is_refused)


def test_chunks_that_others_could_read_otherwise_are_refused(server: AppServer, alice: Person) -> None:
    head = "POST /v1/posts/validate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked"
    key = {"Authorization": f"Bearer {alice.key}"}

    def is_refused(chunks: str) -> None:
        """Where the handler reads them, and where they are dropped after a refusal."""
        answer = closes(f"{head}\r\nAuthorization: Bearer {alice.key}\r\n\r\n{chunks}", server, 400, **key)
        assert (answer.error()["rule"], answer.headers["connection"]) == ("http.request", "close")
        closes(f"{head}\r\n\r\n{chunks}", server, 401, **key)

    with unchanged(server):
        check_rows(CHUNKED, is_refused)


def test_no_body_is_waited_for_behind_a_head_that_is_refused(server: AppServer) -> None:
    with raw_http.connect(server) as sock:
        sock.sendall(b"POST /v1/posts HTTP/1.1\r\nContent-Length: 3\r\n\r\n")
        assert (raw_http.read_response(sock).status, sock.recv(1)) == (400, b"")


@pytest.mark.parametrize("head", [b"GET /healthz HTTP/1.1\nHost: x\n\n", b"GET /healthz HTTP/1.1\r\nHost: x\n\n"])
def test_a_head_with_lone_line_feeds_is_refused_at_once(head: bytes, server: AppServer) -> None:
    """In one piece or byte by byte: its end, by RFC 9112, never comes."""
    answer = raw_http.send_raw(server, head)
    assert (answer.status, answer.error()["rule"], answer.headers["connection"]) == (400, "http.request", "close")
    with raw_http.connect(server) as sock:
        raw_http.send_bytes_one_by_one(sock, head[:-1])
        assert raw_http.read_response(sock).status == 400


def test_a_head_that_comes_byte_by_byte_is_taken(server: AppServer) -> None:
    with raw_http.connect(server) as sock:
        raw_http.send_bytes_one_by_one(sock, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert raw_http.read_response(sock).status == 200


@pytest.mark.parametrize("told", [["close", "keep-alive"], ["keep-alive", "close"], ["keep-alive", "x"]])
def test_a_connection_is_closed_where_one_of_its_lines_says_so(told: list[str], server: AppServer) -> None:
    lines = "".join(f"Connection: {each}\r\n" for each in told)
    answer = raw_http.send_raw(server, f"GET /healthz HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
    assert (answer.status, answer.headers["connection"]) == (200, "close")


@pytest.mark.parametrize("coding", ["Chunked", "CHUNKED", "chunked \t"])
def test_chunked_is_known_in_any_letters(coding: str, server: AppServer, alice: Person) -> None:
    """Sanic by itself knows it in small ones, with nothing behind it."""
    head = f"POST /v1/posts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice.key}\r\nTransfer-Encoding: {coding}"
    answer = raw_http.send_raw(server, f"{head}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n".encode())
    assert (answer.status, answer.error()["code"]) == (400, "validation_failed")


def test_white_space_behind_a_value_is_none_of_it(server: AppServer) -> None:
    answer = raw_http.send_raw(server, b"GET /healthz HTTP/1.1\r\nHost: x \r\nX-Request-Id: a-request \t \r\n\r\n")
    assert answer.headers["x-request-id"] == "a-request"


@pytest.mark.parametrize(("target", "status"), [("http://x:99999999/", 400), ("/%", 404), ("//", 303), ("//a", 404)])
def test_an_odd_target_is_answered_too(target: str, status: int, server: AppServer) -> None:
    """Sanic by itself closes the connection without a response to the first, and fails in its router for `//`."""
    host = "x:99999999" if "99999999" in target else "x"
    answer = raw_http.send_raw(server, f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert answer.status == status


@pytest.mark.parametrize("target", ["http://X", "HTTP://x/", "http://x?a=b", "/"])
def test_the_address_of_this_server_is_a_target(target: str, server: AppServer) -> None:
    """A client that takes it for a proxy names all of it; an empty path is the root."""
    answer = raw_http.send_raw(server, f"GET {target} HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\n\r\n".encode())
    assert (answer.status, answer.headers.get("location", "").startswith("/login")) == (303, True), answer
