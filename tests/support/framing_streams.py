"""Seeded generator of request streams: valid by RFC 9112, then mutated."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

CRLF = b"\r\n"


@dataclass
class RequestParts:
    """One request in parts, each of which a mutation may spoil."""

    method: bytes = b"GET"
    target: bytes = b"/v1/posts"
    version: bytes = b"HTTP/1.1"
    separators: tuple[bytes, bytes] = (b" ", b" ")
    fields: list[tuple[bytes, bytes]] = field(default_factory=list)  # name with its colon, value
    ends: dict[int, bytes] = field(default_factory=dict)  # by line, where it is not CRLF; -1: the empty line
    before: bytes = b""
    body: bytes = b""
    chunks: list[tuple[bytes, bytes, bytes]] | None = None  # size line, data, what follows it
    trailer: bytes = b""

    def text(self) -> bytes:
        first, second = self.separators
        lines = [self.method + first + self.target + second + self.version]
        lines += [name + value for name, value in self.fields]
        head = b"".join(line + self.ends.get(n, CRLF) for n, line in enumerate(lines)) + self.ends.get(-1, CRLF)
        body = self.body
        if self.chunks is not None:
            body = b"".join(size + data + end for size, data, end in self.chunks) + self.trailer
        return self.before + head + body

    def set(self, name: bytes, value: bytes) -> None:
        self.drop(name)
        self.fields.append((name + b":", b" " + value))

    def drop(self, name: bytes) -> None:
        self.fields = [each for each in self.fields if each[0].lower() != name.lower() + b":"]


def make_stream(seed: int) -> bytes:
    """One to three requests one behind the other, of which most are spoilt a little."""
    chance = random.Random(seed)
    messages = [_valid(chance) for _ in range(chance.choice((1, 1, 2, 3)))]
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        message = chance.choice(messages)
        chance.choice(MUTATIONS)(message, chance)
    data = b"".join(message.text() for message in messages)
    return _with_odd_bytes(data, chance)


def _valid(chance: random.Random) -> RequestParts:
    message = RequestParts(target=chance.choice(TARGETS))
    message.fields = [(b"Host:", b" " + chance.choice((b"a.example", b"127.0.0.1:8080", b"[::1]:8080")))]
    for _ in range(chance.randrange(3)):
        message.fields.append(chance.choice(FIELDS))
    chance.shuffle(message.fields)
    how = chance.randrange(4)
    if how >= 2:
        message.method = chance.choice((b"POST", b"PUT", b"PATCH"))
        body = chance.choice((b"", b"{}", b"GET / HTTP/1.1\r\n\r\n", b"0\r\n\r\n", b"x" * chance.randrange(60)))
        if how == 2:
            message.body = body
            message.set(b"Content-Length", str(len(body)).encode())
        else:
            message.set(b"Transfer-Encoding", b"chunked")
            message.chunks = _chunks(body, chance)
            message.trailer = CRLF
    return message


def _chunks(body: bytes, chance: random.Random) -> list[tuple[bytes, bytes, bytes]]:
    size = chance.randrange(1, 20)
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return [*((b"%x\r\n" % len(part), part, CRLF) for part in parts), (b"0\r\n", b"", b"")]


def _with_odd_bytes(data: bytes, chance: random.Random) -> bytes:
    """Now and then a byte too few, too many or another; now and then a stream that is cut short."""
    at, odd = chance.randrange(len(data)), bytes([chance.choice(ODD)])
    how = chance.randrange(24)
    if how == 0:
        return data[:at] + odd + data[at:]
    if how == 1:
        return data[:at] + odd + data[at + 1 :]
    if how == 2:
        return data[:at] + data[at + 1 :]
    return data[:at] if how == 3 else data


# --- What is spoilt ------------------------------------------------------------------------------------------------

ODD = b"\0\t\n\v\f\r !\"'(),/:;<=>@[\\]{}\x7f\x80\xa0\xff+-_0159aAfx"
TARGETS = (b"/", b"/v1/posts", b"/a/b?c=d&e=%20", b"/a;b=c/~d", b"/x?y=http://z/#f", b"//a/b")
FIELDS: tuple[tuple[bytes, bytes], ...] = (
    (b"Accept:", b" */*"),
    (b"X-A:", b"\t b \t c \t"),
    (b"x-empty:", b""),
    (b"X!#$%&'*+-.^_`|~9:", b" a:b:c"),
    (b"User-Agent:", " \u00e9\u4e2d".encode()),
    (b"Cookie:", b" a=b; c=d"),
    (b"Connection:", b" keep-alive"),
    (b"Connection:", b" close"),
    (b"Expect:", b" 100-continue"),
)
HOSTS = (
    b"",
    b"a b",
    b"a/b",
    b"a.example:",
    b"a.example:x",
    b"a@b",
    b"[::1",
    b"a,b",
    "\u00e9".encode(),
    b"a%20b",
    b"a_b",
)
LENGTHS = (
    b"", b"+3", b"-3", b"0x3", b"3 ", b"\t3\t", b"03", b"3,3", b"3, 3", b"3 3", b"3_0", b"1e1", b"3.0", b"\xd9\xa3",
    b"9" * 18, b"9" * 19, b"9" * 30, b"18446744073709551619", b"3;3", b'"3"', b"chunked",
)  # fmt: skip
CODINGS = (
    b"", b"Chunked", b"CHUNKED", b"chunked ", b"\tchunked", b"chunked, chunked", b"gzip, chunked", b"chunked, gzip",
    b"identity", b"gzip", b"xchunked", b"chunked;a=b", b"chunke\x64\x00", b'"chunked"', b"chunked,", b",chunked",
    b"\vchunked", b"chunked\x0c", b"identity, chunked", b"chun ked",
)  # fmt: skip
VERSIONS = (
    b"HTTP/1.0", b"HTTP/1.0", b"HTTP/1.0", b"HTTP/1.2", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/2", b"http/1.1", b"HTTP/1.1 ",
    b"HTTP/1.10", b"HTTP/01.1", b"HTTP/1,1", b"HTTPS/1.1", b"HTTP /1.1", b"HTTP/1.", b"", b"ICE/1.0", b"HTTP/1.\xb2",
)  # fmt: skip
METHODS = (
    b"get", b"GE T", b"", b"G\tT", b"GET:", b"G(T", b"HEAD", b"OPTIONS", b"CONNECT", b"PURGE", b"FOO", b"TRACE", b"PRI",
    b"\xc3\x89", b"M-SEARCH", b"GET,", b"G\0T",
)  # fmt: skip
ODD_TARGETS = (
    b"", b"*", b"a", b"a.example:443", b"http://a.example/b?c", b"HTTP://a.example", b"http://b.example/",
    b"https://127.0.0.1:8080/a#b", b"http:///a", b"http://[", b"ftp://a.example/", b"/a b", b"/\x80", b"/\xc3\xa9",
    b"/\x7f", b"/\t", b'/"<>\\^`{|}', b"/a#b", b"?a", b"/\0", b"?", b"mailto:a", b"/%", b"/%00",
    b"http://a.example?b",
)  # fmt: skip
LINE_ENDS = (b"\n", b"\r", b"\r\r\n", b"\n\r", b"", b"\r\n\r", b" \r\n", b"\t\r\n", b"\0\r\n", b"\v\r\n")
NAMES = (b"", b" ", b"a b", b"a(", b"a@", b'"a"', b"\xc3\xa9", b"a\0", b"a\t", b"a\x7f", b"a,", b"a/b", b"a=", b"[a]")
COLONS = (b" :", b"\t:", b"", b" ", b"::", b";", b"\v:", b"\r:", b"\xa0:", b" \t :")
VALUES = (b"a\0b", b"a\rb", b"a\nb", b"a\vb", b"a\x1fb", b"a\x7fb", b"a\x80b", b"\r", b"\n", b"a\r\rb", b"\x01", b"a\r")
FOLDS = (b"\r\n b", b"\r\n\tb", b"\n b", b"\r b", b"\r\n ", b"\r\n  :", b"\r\n\t\r\n b")
CONNECTIONS = (
    b"close", b"Close", b"CLOSE", b"keep-alive", b"Keep-Alive", b"close, keep-alive", b"keep-alive, close", b"upgrade",
    b"keep-alive, upgrade", b"x", b"", b"closed", b"close,", b"close;a", b"te, close",
)  # fmt: skip
EXPECTS = (b"100-continue", b"100-Continue", b"200-ok", b"", b"100-continue, x")
SIZES = (
    b"", b" 3", b"3 ", b"3\t", b"0x3", b"+3", b"-3", b"3_", b"\xd9\xa3", b"3;", b"3;a", b"3;a=b", b'3;a="b"',
    b"3;a=\0", b"3;a=b\nc", b"3 ;a", b"3; a = b", b"0003", b"F", b"f" * 15, b"f" * 16, b"f" * 17, b"f" * 21, b"3\r",
    b"3;" + b"a" * 90, b"3;" + b"a" * 300, b"3,3", b"3.", b"g", b"0", b"00", b"-0", b"3;\xff", b"0;a=b", b'3;a="b;c"',
    b"3;;", b"3;=",
)  # fmt: skip
CHUNK_ENDS = (b"", b"\n", b"\r", b"xx", b"x\r\n", b"\r\r\n", b" \r\n", b"\r\nx", b"\n\r", b"\r\n\r\n")
TRAILERS = (
    b"", b"\n", b"\r", b"X-A: b\r\n\r\n", b"X-A: b\n\n", b"x\r\n\r\n", b"Content-Length: 3\r\n\r\n",
    b"Host: c\r\n\r\n", b" \r\n", b"X-A : b\r\n\r\n", b"\r\r\n", b"\r\n\r\n", b"\r\n\n", b"x",
    b"Transfer-Encoding: chunked\r\n\r\n", b":\r\n\r\n", b"X-A: \0\r\n\r\n",
)  # fmt: skip
PREFIXES = (
    b"\r\n",
    b"\n",
    b"\r\n\r\n",
    b"\r",
    b" ",
    b"\0",
    b"\xef\xbb\xbf",
    b"\r\n \r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)


def _request_line(message: RequestParts, chance: random.Random) -> None:
    how = chance.randrange(5)
    if how == 0:
        message.method = chance.choice(METHODS)
    elif how == 1:
        message.target = chance.choice(ODD_TARGETS)
    elif how == 2:
        message.method, message.target = chance.choice(METHODS), chance.choice(ODD_TARGETS)
    elif how == 3:
        message.version = chance.choice(VERSIONS)
    else:
        odd = chance.choice((b"", b"  ", b"\t", b" \t", b"\r", b"\xa0", b"\v", b"\0"))
        message.separators = chance.choice(((odd, b" "), (b" ", odd)))


def _host(message: RequestParts, chance: random.Random) -> None:
    how = chance.randrange(4)
    if how == 0:
        message.drop(b"Host")
    elif how == 1:
        _insert(message, chance, (b"Host:", b" " + chance.choice((b"a.example", b"b.example", *HOSTS))))
    else:
        message.set(chance.choice((b"Host", b"HOST", b"host")), chance.choice(HOSTS))
    if chance.random() < 0.2:
        message.version = b"HTTP/1.0"


def _length(message: RequestParts, chance: random.Random) -> None:
    value = chance.choice((*LENGTHS, str(len(message.body)).encode(), b"3"))
    if chance.random() < 0.4:
        _insert(message, chance, (b"Content-Length:", b" " + value))
    else:
        message.set(chance.choice((b"Content-Length", b"content-length", b"CONTENT-LENGTH")), value)


def _coding(message: RequestParts, chance: random.Random) -> None:
    value = chance.choice((*CODINGS, b"chunked", b"chunked"))
    if chance.random() < 0.3:
        _insert(message, chance, (b"Transfer-Encoding:", b" " + value))
    else:
        message.set(chance.choice((b"Transfer-Encoding", b"TRANSFER-ENCODING")), value)
    if message.chunks is None and chance.random() < 0.8:
        message.chunks, message.trailer = _chunks(message.body, chance), CRLF
    if chance.random() < 0.2:
        message.version = b"HTTP/1.0"


def _field(message: RequestParts, chance: random.Random) -> None:
    how, at = chance.randrange(4), chance.randrange(len(message.fields)) if message.fields else 0
    name, value = message.fields[at] if message.fields else (b"X-A:", b" b")
    if how == 0:
        name = chance.choice(NAMES) + b":"
    elif how == 1:
        name = name[:-1] + chance.choice(COLONS)
    elif how == 2:
        value = b" " + chance.choice(VALUES)
    else:
        value += chance.choice(FOLDS)
    if chance.random() < 0.5:
        message.fields[at : at + 1] = [(name, value)]
    else:
        message.fields.insert(at, (name, value))


def _line_end(message: RequestParts, chance: random.Random) -> None:
    message.ends[chance.randrange(-1, len(message.fields) + 1)] = chance.choice(LINE_ENDS)
    if chance.random() < 0.2:
        message.ends |= dict.fromkeys(range(-1, len(message.fields) + 1), b"\n")


def _connection(message: RequestParts, chance: random.Random) -> None:
    value = b" " + chance.choice(CONNECTIONS)
    _insert(message, chance, (b"Connection:", value))
    if chance.random() < 0.3:
        _insert(message, chance, (b"Upgrade:", chance.choice((b" websocket", b" h2c", b" x"))))
    if chance.random() < 0.2:
        message.version = b"HTTP/1.0"


def _expect(message: RequestParts, chance: random.Random) -> None:
    message.set(b"Expect", chance.choice(EXPECTS))


def _chunk(message: RequestParts, chance: random.Random) -> None:
    if message.chunks is None:
        message.drop(b"Content-Length")
        message.set(b"Transfer-Encoding", b"chunked")
        message.chunks, message.trailer = _chunks(b"abc", chance), CRLF
    at, how = chance.randrange(len(message.chunks)), chance.randrange(4)
    size, data, end = message.chunks[at]
    if how == 0:
        message.chunks[at] = chance.choice(SIZES) + CRLF, chance.choice((data, b"abc")), CRLF
    elif how == 1:
        message.chunks[at] = size[:-2] + chance.choice((b"\n", b"\r", b"", b"\n\r", b"\r\r\n")), data, end
    elif how == 2:
        message.chunks[at] = size, data, chance.choice(CHUNK_ENDS)
    else:
        message.trailer = chance.choice(TRAILERS)


def _prefix(message: RequestParts, chance: random.Random) -> None:
    message.before = chance.choice(PREFIXES)


def _insert(message: RequestParts, chance: random.Random, pair: tuple[bytes, bytes]) -> None:
    message.fields.insert(chance.randrange(len(message.fields) + 1), pair)


Mutation = Callable[[RequestParts, random.Random], None]
MUTATIONS: tuple[Mutation, ...] = (
    _request_line, _request_line, _host, _length, _length, _coding, _field, _field, _line_end, _connection, _expect,
    _chunk, _chunk, _prefix,
)  # fmt: skip
