"""Outbound HTTP client against misbehaving servers: deadlines, size caps, SSRF, redirects."""

from __future__ import annotations

import datetime
import gzip
import io
import re
import socket
import ssl
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import network, ssrf, transport
from tests.support.connection_server import ConnectionServer

Answer = Callable[[socket.socket, bytes], None]
LOOPBACK: outbound.Resolver = lambda host, port: ["127.0.0.1"]  # noqa: E731
MIB = 1024 * 1024
TLS_RECORD = b"\x16"  # with which a client that speaks TLS begins: a server that does not has nothing to wait for


class Upstream:
    """A server on loopback: reads one request a connection and hands its bytes to `answer`."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.answer, self.tls = answer, tls
        self.requests: list[bytes] = []
        self._server = ConnectionServer(self._talk)
        self.port = self._server.port

    @property
    def connections(self) -> int:
        return self._server.connections

    def _talk(self, connection: socket.socket) -> None:
        if self.tls:
            connection = self.tls.wrap_socket(connection, server_side=True)
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.recv(65536)
            if not piece or (not head and piece[:1] == TLS_RECORD):
                return
            head += piece
        head += self._body(connection, head)
        self.requests.append(head)
        self.answer(connection, head)
        connection.close()

    def _body(self, connection: socket.socket, head: bytes) -> bytes:
        """What is missing of a short body; a long one is the answer's to read."""
        length = re.search(rb"content-length: (\d+)", head.lower())
        missing = int(length[1]) - len(head.partition(b"\r\n\r\n")[2]) if length else 0
        return connection.recv(missing, socket.MSG_WAITALL) if 0 < missing < 65536 else b""

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def upstream() -> Iterator[Callable[..., Upstream]]:
    made: list[Upstream] = []

    def make(answer: Answer | bytes, tls: ssl.SSLContext | None = None) -> Upstream:
        say = answer if callable(answer) else lambda connection, _: connection.sendall(answer)
        made.append(Upstream(say, tls))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def client() -> Iterator[outbound.HttpClient]:
    with outbound.HttpClient(outbound.ConnectionPolicy(guarded=False, resolver=LOOPBACK)) as http:
        yield http


def ok(body: bytes = b"{}", *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def refused(run: Callable[[], Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        run()
    return caught.value


# --- An ordinary call ----------------------------------------------------------------------------------------------


def test_a_call_sends_what_was_asked_and_nothing_of_the_environment(
    upstream: Callable[..., Upstream], client: outbound.HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    server = upstream(ok(b'{"a":1}', "Date: Fri, 20 Nov 2026 12:00:00 GMT", "Retry-After: 7"))
    with outbound.HttpClient(outbound.ConnectionPolicy(guarded=False, resolver=LOOPBACK)) as http:
        reply = http.request("POST", f"http://api.test:{server.port}/x?y=1", json={"b": 2}, headers={"X-One": "1"})
    assert (reply.status_code, reply.json(), reply.retry_after) == (200, {"a": 1}, 7)
    assert reply.headers["date"] == "Fri, 20 Nov 2026 12:00:00 GMT"
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /x?y=1 HTTP/1.1"
    assert dict(line.split(": ", 1) for line in lines[1:]) == {
        "Host": f"api.test:{server.port}",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Connection": "keep-alive",
        "User-Agent": outbound.USER_AGENT,
        "X-One": "1",
        "Content-Length": "7",
        "Content-Type": "application/json",
    }
    assert body == b'{"b":2}'


def test_cookies_of_an_answer_are_not_sent_back(upstream: Callable[..., Upstream], client: outbound.HttpClient) -> None:
    server = upstream(ok(b"{}", "Set-Cookie: session=other; Path=/"))
    for _ in range(2):
        client.request("GET", f"http://api.test:{server.port}/")
    assert not any(b"ookie" in request for request in server.requests)


def test_redirects_of_a_call_are_not_followed(upstream: Callable[..., Upstream], client: outbound.HttpClient) -> None:
    other = upstream(ok())
    server = upstream(
        f"HTTP/1.1 302 Found\r\nLocation: http://api.test:{other.port}/\r\nContent-Length: 0\r\n\r\n".encode()
    )
    assert client.request("GET", f"http://api.test:{server.port}/").status_code == 302
    assert other.connections == 0


# --- Deadlines -------------------------------------------------------------------------------------------------------


def trickle(part: bytes, every: float = 0.02) -> Answer:
    """Say the beginning of an answer, then one byte at a time without an end."""

    def say(connection: socket.socket, _: bytes) -> None:
        connection.sendall(part)
        stop = threading.Event()
        while not stop.wait(every):
            connection.sendall(b"x")

    return say


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nX-Long: "])
def test_a_byte_at_a_time_does_not_outlive_the_deadline(
    upstream: Callable[..., Upstream], client: outbound.HttpClient, start: bytes
) -> None:
    server = upstream(trickle(start))  # it never ends by itself
    error = refused(lambda: client.request("GET", f"http://api.test:{server.port}/", timeout=1.0))
    assert (error.code, error.outcome) == ("platform_unavailable", Outcome.AMBIGUOUS)


def test_a_body_that_comes_a_byte_at_a_time_does_not_outlive_the_deadline(
    upstream: Callable[..., Upstream], client: outbound.HttpClient
) -> None:
    server = upstream(trickle(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n"))
    reply = client.request("GET", f"http://api.test:{server.port}/", timeout=2.0)
    assert (reply.status_code, reply.unread) == (200, outbound.UnreadReason.LATE)


def test_a_receiver_that_reads_slowly_does_not_outlive_the_deadline(
    upstream: Callable[..., Upstream], client: outbound.HttpClient
) -> None:
    def sip(connection: socket.socket, _: bytes) -> None:
        stop = threading.Event()
        while not stop.wait(0.02):
            heard.append(len(connection.recv(16 * 1024)))

    heard: list[int] = []
    server = upstream(sip)
    error = refused(
        lambda: client.request("POST", f"http://api.test:{server.port}/", content=bytes(64 * MIB), timeout=2.0)
    )
    assert sum(heard) < 64 * MIB
    assert error.outcome == Outcome.AMBIGUOUS


def test_a_resolver_that_does_not_answer_does_not_outlive_the_deadline() -> None:
    gate, woken = threading.Event(), threading.Event()

    def asleep(host: str, port: int) -> list[str]:
        gate.wait()
        woken.set()
        return []

    with outbound.HttpClient(outbound.ConnectionPolicy(guarded=False, resolver=asleep)) as http:
        error = refused(lambda: http.request("GET", "http://api.test/", timeout=0.2))
    assert not woken.is_set()
    gate.set()
    assert error.outcome == Outcome.NOT_SENT


def test_the_deadline_covers_all_hops_of_a_download(
    upstream: Callable[..., Upstream], client: outbound.HttpClient
) -> None:
    def later(connection: socket.socket, _: bytes) -> None:
        threading.Event().wait(0.2)
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    server = upstream(later)
    refused(
        lambda: client.download(f"http://a.test:{server.port}/", io.BytesIO(), max_bytes=9, timeout=0.5, redirects=1000)
    )
    assert server.connections < 1000  # it was the deadline, not the number of hops


# --- Sizes -----------------------------------------------------------------------------------------------------------


def endless(connection: socket.socket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        connection.sendall(bytes(65536))


def bomb(kind: str, size: int = 32 * MIB) -> bytes:
    """An answer that unpacks to `size` zeros."""
    packer = zlib.compressobj(9, wbits=31 if kind == "gzip" else 15)
    piece, body = bytes(MIB), b""
    for _ in range(size // MIB):
        body += packer.compress(piece)
    return ok(body + packer.flush(), f"Content-Encoding: {kind}")


# Made when they are needed: it takes its time to pack them.
TOO_LARGE: dict[str, Callable[[], Any]] = {
    "endless": lambda: endless,
    "gzip": lambda: bomb("gzip"),
    "deflate": lambda: bomb("deflate"),
}


@pytest.mark.parametrize("kind", TOO_LARGE)
def test_an_answer_is_read_to_its_cap_and_no_further(
    upstream: Callable[..., Upstream], client: outbound.HttpClient, kind: str
) -> None:
    server = upstream(TOO_LARGE[kind]())
    tracemalloc.start()
    reply = client.request("GET", f"http://a.test:{server.port}/", extensions={"max_bytes": MIB})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (reply.unread, len(reply.content)) == (outbound.UnreadReason.TOO_LARGE, MIB)
    assert peak < 8 * MIB


TOO_LONG: dict[str, Callable[[], Any]] = {
    "endless": lambda: endless,
    "gzip": lambda: bomb("gzip"),
    "ok": lambda: ok(bytes(2 * MIB)),
}


@pytest.mark.parametrize("kind", TOO_LONG)
def test_a_download_ends_at_its_cap(upstream: Callable[..., Upstream], client: outbound.HttpClient, kind: str) -> None:
    server, into = upstream(TOO_LONG[kind]()), io.BytesIO()
    reply = client.download(f"http://a.test:{server.port}/", into, max_bytes=MIB, timeout=10)
    assert reply.unread is outbound.UnreadReason.TOO_LARGE
    assert len(into.getvalue()) == (0 if kind == "ok" else MIB)  # what announces more is not read


def test_the_beginning_of_a_download_is_had_where_it_is_of_use(
    upstream: Callable[..., Upstream], client: outbound.HttpClient
) -> None:
    server, into = upstream(ok(bytes(2 * MIB))), io.BytesIO()
    reply = client.download(f"http://a.test:{server.port}/", into, max_bytes=MIB, timeout=10, whole=False)
    assert (reply.unread, len(into.getvalue())) == (outbound.UnreadReason.TOO_LARGE, MIB)


def test_a_download_of_exactly_the_cap_is_taken(upstream: Callable[..., Upstream], client: outbound.HttpClient) -> None:
    server, into = upstream(ok(b"m" * MIB)), io.BytesIO()
    reply = client.download(f"http://a.test:{server.port}/", into, max_bytes=MIB, timeout=10)
    assert (reply.status_code, into.getvalue()) == (200, b"m" * MIB)


def test_packed_answers_are_unpacked_though_plain_ones_were_asked_for(
    upstream: Callable[..., Upstream], client: outbound.HttpClient
) -> None:
    server = upstream(ok(gzip.compress(b'{"a":1}'), "Content-Encoding: gzip"))
    assert client.request("GET", f"http://a.test:{server.port}/").json() == {"a": 1}


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/9.9 banana\r\n\r\n",
        b"<html>",
        b"",
    ],
)
def test_an_answer_without_a_head_is_an_ambiguous_end(
    upstream: Callable[..., Upstream], client: outbound.HttpClient, answer: bytes
) -> None:
    server = upstream(answer)
    error = refused(lambda: client.request("POST", f"http://a.test:{server.port}/", content=b"1"))
    assert (error.code, error.outcome) == ("platform_unavailable", Outcome.AMBIGUOUS)
    assert "<html>" not in error.message


def test_a_redirect_without_an_address_is_an_answer_like_another(
    upstream: Callable[..., Upstream], client: outbound.HttpClient
) -> None:
    server, into = upstream(b"HTTP/1.1 302 Found\r\nContent-Length: 1\r\n\r\nx"), io.BytesIO()
    assert client.download(f"http://a.test:{server.port}/", into, max_bytes=9, timeout=60).status_code == 302
    assert into.getvalue() == b""


# --- The guard -------------------------------------------------------------------------------------------------------


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that the client would connect to; nothing is connected."""
    seen: list[str] = []

    def begin(_: Any, address: str, port: int) -> str:
        seen.append(address)
        return "not in tests"

    monkeypatch.setattr(network, "_start_connecting", begin)
    return seen


def guarded(resolver: outbound.Resolver) -> outbound.HttpClient:
    return outbound.HttpClient(outbound.ConnectionPolicy(guarded=True, resolver=resolver))


@pytest.mark.slow
def test_a_rebinding_name_never_gets_an_inner_connection(dialled: list[str]) -> None:
    answers = iter(["93.184.216.34", "127.0.0.1", "10.0.0.1", "::1", "169.254.169.254"] * 1000)
    for _ in range(1000):
        with guarded(lambda host, port: [next(answers)]) as http:
            refused(lambda: http.request("GET", "https://rebind.example/"))  # noqa: B023
    assert len(dialled) == 200
    assert set(dialled) == {"93.184.216.34"}


@pytest.mark.parametrize("inner", ["127.0.0.1", "10.0.0.1", "::1", "fd00::1", "169.254.169.254", "168.63.129.16"])
def test_one_inner_address_among_the_answers_refuses_the_name(dialled: list[str], inner: str) -> None:
    for answers in (["93.184.216.34", inner], [inner, "93.184.216.34"]):
        with guarded(lambda host, port: answers) as http:  # noqa: B023
            error = refused(lambda: http.request("GET", "https://mixed.example/"))  # noqa: B023
        assert (error.rule, error.outcome) == ("media.url.disallowed", Outcome.NOT_SENT)
    assert dialled == []


def test_the_address_that_was_checked_is_the_one_that_is_dialled(dialled: list[str]) -> None:
    asked: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["93.184.216.34", "2606:4700::1111"]

    with guarded(resolver) as http:
        error = refused(lambda: http.request("GET", "https://example.com/"))
    assert (asked, dialled) == (["example.com"], ["93.184.216.34", "2606:4700::1111"])
    assert error.outcome == Outcome.NOT_SENT


@pytest.mark.parametrize(
    "url", ["http://example.com/", "https://127.0.0.1/", "https://u@example.com/", "https://x:25/"]
)
def test_urls_that_are_not_called_are_not_even_resolved(dialled: list[str], url: str) -> None:
    def never(host: str, port: int) -> list[str]:
        raise AssertionError("resolved")

    with guarded(never) as http:
        for run in (
            lambda: http.request("GET", url),
            lambda: http.download(url, io.BytesIO(), max_bytes=1, timeout=1),
        ):
            error = refused(run)
            assert (error.rule, error.outcome) == ("media.url.disallowed", Outcome.NOT_SENT)


def test_closed_open_and_filtered_inner_ports_give_the_same_text(upstream: Callable[..., Upstream]) -> None:
    open_port = upstream(ok()).port
    with socket.create_server(("127.0.0.1", 0)) as unheard, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ports = [open_port, unheard.getsockname()[1], closed.getsockname()[1]]
        texts = set()
        for port in ports:
            with guarded(LOOPBACK) as http:
                error = refused(lambda: http.request("GET", f"https://inner.example:{port}/"))  # noqa: B023
            texts.add((error.message, error.rule, error.code, error.outcome))
    assert len(texts) == 1


def test_an_inner_port_is_not_even_dialled_so_that_no_time_tells_of_it(dialled: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as open_, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ports = [open_.getsockname()[1], closed.getsockname()[1], 65_000]
        for port in ports:
            url = f"https://inner.example:{port}/"
            with guarded(LOOPBACK) as http:
                refused(lambda: http.request("GET", url))  # noqa: B023
                refused(lambda: http.download(url, io.BytesIO(), max_bytes=1, timeout=1))  # noqa: B023
    assert dialled == []
    with guarded(lambda host, port: ["93.184.216.34"]) as http:
        refused(lambda: http.request("GET", "https://outer.example/"))
    assert dialled == ["93.184.216.34"]


# --- The guard, hop by hop: a TLS server that counts as public --------------------------------------------------------


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's context for cdn.example and inner.example, which the client trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    names = x509.SubjectAlternativeName([x509.DNSName("cdn.example"), x509.DNSName("inner.example")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=9))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "server.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    trusting = ssl.create_default_context(cafile=str(path))
    monkeypatch.setattr(transport, "get_ssl_context", lambda: trusting)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def public(monkeypatch: pytest.MonkeyPatch, *servers: Upstream) -> None:
    """Only these servers' ports count as public."""
    ports = {server.port for server in servers}
    monkeypatch.setattr(ssrf, "may_connect", lambda address, port: address == "127.0.0.1" and port in ports)


def to(location: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


@pytest.mark.parametrize(
    "location",
    [
        "https://169.254.169.254/latest/meta-data/",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://[::1]/",
        "https://user@cdn.example/",
        "http://cdn.example/",
        "//localhost/",
        "https://inner.example:{inner}/",
        "https://inner.example:22/",
        "file:///etc/passwd",
        "ftp://cdn.example/",
    ],
)
def test_each_hop_of_a_download_is_checked_anew(
    upstream: Callable[..., Upstream], tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    inner = upstream(ok(b"secret"), tls)
    server = upstream(to(location.format(inner=inner.port)), tls)
    public(monkeypatch, server)
    into = io.BytesIO()
    with guarded(LOOPBACK) as http:
        error = refused(lambda: http.download(f"https://cdn.example:{server.port}/", into, max_bytes=99, timeout=60))
    assert (error.rule, error.outcome) == ("media.url.disallowed", Outcome.NOT_SENT)
    assert (inner.connections, len(server.requests), into.getvalue()) == (0, 1, b"")


def test_at_most_three_redirects_are_followed(
    upstream: Callable[..., Upstream], tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    hops = 0

    def answer(connection: socket.socket, _: bytes) -> None:
        nonlocal hops
        hops += 1
        connection.sendall(to(f"/{hops}") if hops < last else ok(b"file"))

    server = upstream(answer, tls)
    public(monkeypatch, server)
    url = f"https://cdn.example:{server.port}/a"
    with guarded(LOOPBACK) as http:
        last, into = 4, io.BytesIO()
        assert http.download(url, into, max_bytes=99, timeout=60).url.path == "/3"
        assert into.getvalue() == b"file"
        hops, last = 0, 5
        assert "redirects too often" in refused(lambda: http.download(url, into, max_bytes=99, timeout=60)).message


def test_the_certificate_must_be_that_of_the_name(
    upstream: Callable[..., Upstream], tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = upstream(ok(), tls)
    public(monkeypatch, server)
    with guarded(LOOPBACK) as http:
        assert http.request("GET", f"https://cdn.example:{server.port}/").status_code == 200
        error = refused(lambda: http.request("GET", f"https://cdn.other:{server.port}/"))
    assert error.outcome == Outcome.NOT_SENT


def test_certificates_are_loaded_once_however_many_calls_are_the_first(
    upstream: Callable[..., Upstream], client: outbound.HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, loaded, asking = httpx.create_ssl_context, [], threading.Barrier(8)
    server = upstream(ok())

    def load(**how: Any) -> ssl.SSLContext:
        loaded.append(how)
        return real(**how)

    def ask() -> None:
        asking.wait()
        refused(lambda: client.request("GET", f"https://api.test:{server.port}/"))  # it knows no TLS

    monkeypatch.setattr(httpx, "create_ssl_context", load)
    monkeypatch.setattr(transport, "_ssl_context", None)
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(loaded), server.connections) == (1, 8)
