"""SMTP client: delivery, TLS and certificates, login, refusals, timeouts."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from socialpub.base import smtp
from tests.support.mail_server import PASSWORD, SENDER, USERNAME, running_mail_server

TO = "newsroom@example.org"
MESSAGE = b"Subject: hello\r\n\r\nhello\r\n.\r\n..two\r\n"
HERE = lambda host, port: ["127.0.0.1"]  # noqa: E731


def server(
    port: int, security: smtp.SmtpSecurity = "none", *, ca_file: str = "", login: bool = False
) -> smtp.SmtpServer:
    names = (USERNAME, PASSWORD) if login else ("", "")
    return smtp.SmtpServer("127.0.0.1", port, security, *names, ca_file, "[127.0.0.1]")


def hand(to: smtp.SmtpServer, deadline: float = 30) -> smtp.SmtpResult:
    return smtp.send_message(to, HERE, SENDER, TO, MESSAGE, deadline=deadline)


@contextlib.contextmanager
def speaking(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that says what `talk` does."""
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listening.accept()
            with connection:
                talk(connection)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    listening.shutdown(socket.SHUT_RDWR)  # closed alone, it would still be waited for
    listening.close()
    thread.join(30)


def test_a_message_arrives_byte_for_byte(tmp_path: Path) -> None:
    with running_mail_server(tmp_path) as room:
        handed = hand(server(room.port))
    assert handed == smtp.SmtpResult(250, "2.0.0 Ok: queued as 4F1A")
    (mailed,) = room.got
    assert (mailed.sender, mailed.to, mailed.content) == (SENDER, [TO], MESSAGE)


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_the_certificate_must_be_that_of_the_host_and_trusted(tmp_path: Path, security: smtp.SmtpSecurity) -> None:
    for name, trusted in (("mail.example", True), ("127.0.0.1", False)):
        with running_mail_server(tmp_path, security, login=True, name=name) as room:
            smtp._load_ssl_context.cache_clear()
            handed = hand(server(room.port, security, ca_file=room.ca_file if trusted else "", login=True))
        assert (handed.error, handed.kind, handed.final) == (
            "The TLS connection to the mail server failed.",
            "smtp_tls",
            False,
        )
        assert room.got == []


def test_a_server_that_offers_no_starttls_gets_no_password(tmp_path: Path) -> None:
    with running_mail_server(tmp_path, login=True) as room:
        handed = hand(server(room.port, "starttls", login=True))
    assert (handed.kind, handed.final) == ("smtp_settings", False)
    assert room.got == []


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_wrong_password_is_told_and_tried_again(tmp_path: Path, security: smtp.SmtpSecurity) -> None:
    with running_mail_server(tmp_path, security, login=True) as room:
        smtp._load_ssl_context.cache_clear()
        handed = hand(replace(server(room.port, security, ca_file=room.ca_file, login=True), password="wrong"))
    assert (handed.code, handed.kind, handed.final) == (535, "smtp_login", False)
    assert room.got == []


@pytest.mark.parametrize("who", [TO, ""])
@pytest.mark.parametrize(
    ("said", "final"), [("450 4.2.1 Later", False), ("452 4.3.1 Full", False), ("550 5.1.1 Unknown", True)]
)
def test_a_refusal_of_the_message_is_final_when_the_server_says_so(
    tmp_path: Path, who: str, said: str, final: bool
) -> None:
    with running_mail_server(tmp_path) as room:
        room.refusal = {who: said}
        handed = hand(server(room.port))
    assert (handed.code, handed.reply, handed.final) == (int(said[:3]), said[4:], final)
    assert handed.kind == f"smtp_{said[0]}xx"
    assert room.got == []


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert hand(server(port)).kind == "unreachable"

    def unknown(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    assert smtp.send_message(server(port), unknown, SENDER, TO, MESSAGE, deadline=30).kind == "unreachable"


def _silent(connection: socket.socket) -> None:
    connection.recv(1)


def _talking(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection.sendall(b"220-hello and so on\r\n" * 100)


def _endless_line(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection.sendall(b"2" * 10_000)


def _hanging_up(connection: socket.socket) -> None:
    connection.sendall(b"220 mail.test\r\n")
    connection.recv(100)


def _nonsense(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize("talk", [_silent, _talking, _endless_line, _hanging_up, _nonsense])
@pytest.mark.parametrize("security", ["none", "tls"])
def test_whatever_a_server_does_it_ends(talk: Callable[[socket.socket], None], security: smtp.SmtpSecurity) -> None:
    with speaking(talk) as port:
        handed = hand(server(port, security), deadline=1)
    assert handed.error is not None
    assert not handed.final


def test_an_accepted_message_does_not_wait_for_the_end() -> None:
    """Waiting for the response to QUIT could make a failure of it, and the message would be sent twice."""
    said = []

    def accepting(connection: socket.socket) -> None:
        responses = iter((b"250 mail.test", b"250 Ok", b"250 Ok", b"354 Go", b"250 Taken \xff"))
        connection.sendall(b"220 mail.test\r\n")
        with connection.makefile("rb") as lines:
            for line in lines:
                said.append(line.strip().partition(b" ")[0])
                if said[-1] in (b"EHLO", b"MAIL", b"RCPT", b"DATA", b"."):
                    connection.sendall(next(responses) + b"\r\n")

    with speaking(accepting) as port:
        assert hand(server(port), deadline=30) == smtp.SmtpResult(250, "Taken \ufffd")
    assert said[-1] == b"QUIT"
