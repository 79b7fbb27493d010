"""Loopback webhook receiver that records calls and answers as configured."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def sign_body(secret: str, body: bytes) -> str:
    """What `X-Service-Signature` holds for a body."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class ReceivedCall:
    """One call, as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.body)
        return value

    def is_signed(self, secret: str) -> bool:
        """By the service's own scheme and by Standard Webhooks, as a receiver checks it who has this secret."""
        own = sign_body(secret, self.body)
        signatures = {self.headers["x-service-signature"], self.headers.get("x-service-signature-previous")}
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        key = base64.b64decode(secret.removeprefix("whsec_"))
        standard = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return own in signatures and standard in self.headers["webhook-signature"].split(" ")


@dataclass(frozen=True)
class ReceiverResponse:
    """An answer in a form of its own."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


RespondFunction = Callable[[ReceivedCall], "int | ReceiverResponse"]


@dataclass
class WebhookReceiver:
    """What came, and how it is answered: `answer` gives the status, or all that is said, and may wait."""

    answer: RespondFunction = lambda got: 204
    got: list[ReceivedCall] = field(default_factory=list)
    location: str = "/elsewhere"  # of a redirect
    url: str = ""
    origin: str = ""
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, got: ReceivedCall) -> ReceiverResponse:
        with self._changed:
            self.got.append(got)
            self._changed.notify_all()
        said = self.answer(got)
        if isinstance(said, ReceiverResponse):
            return said
        headers = {"Location": self.location} if 300 <= said < 400 else {}
        return ReceiverResponse(said, f"status {said}".encode() if said != 204 else b"", headers)

    def wait(self, count: int, seconds: float = 30) -> list[ReceivedCall]:
        """The calls, once there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.got) >= count, seconds), f"{len(self.got)} of {count} came"
            return list(self.got)


@contextlib.contextmanager
def running_receiver(answer: RespondFunction = lambda got: 204) -> Iterator[WebhookReceiver]:
    sink = WebhookReceiver(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            if len(body) < length:  # the caller was killed meanwhile: that is no call
                return
            said = sink.take(
                ReceivedCall(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            )
            with contextlib.suppress(OSError):  # whoever called may have given up
                self.send_response_only(said.status)  # without a Date of this machine's clock
                for name, value in said.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(said.body)))
                self.end_headers()
                self.wfile.write(said.body)

        def log_message(self, format: str, *values: object) -> None:
            """Nobody reads it."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    sink.origin = f"http://127.0.0.1:{server.server_port}"
    sink.url = f"{sink.origin}/hooks"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield sink
    finally:
        server.shutdown()
        server.server_close()
