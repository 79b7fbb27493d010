"""Server with three users and their Bluesky accounts, and builders of publish requests."""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from PIL import Image

from tests.support.app_server import AppServer, Person, format_instant
from tests.support.publishing_state import publish_post


@dataclass
class RequestCast:
    """A server with three people, each with a Bluesky account. Bob and Charlie are created when a test names them."""

    server: AppServer
    alice: Person

    @functools.cached_property
    def bob(self) -> Person:
        """In Alice's organization, with a profile of his own and a key that is bound to it."""
        return self.server.connected_person("Bob", organization=self.alice.organization, bound=True)

    @functools.cached_property
    def charlie(self) -> Person:
        """Another organization."""
        return self.server.connected_person("Charlie")

    def target(self, **fields: Any) -> dict[str, Any]:
        return {"accountId": self.alice.bluesky, **fields}

    def body(self, **fields: Any) -> dict[str, Any]:
        """A request of Alice's that would be accepted."""
        return {"targets": [self.target()], "text": "hello", **fields}

    def soon(self, seconds: float = 3600) -> str:
        return format_instant(self.server.clock.now_ms() + int(seconds * 1000))

    def post(self, **fields: Any) -> httpx.Response:
        return self.alice.api.publish(self.body(**fields))

    def scheduled(self, **fields: Any) -> str:
        """The id of a post of Alice's that is due in an hour."""
        return publish_post(self.alice, **({"scheduledAt": self.soon()} | fields))

    def published(self, **fields: Any) -> str:
        """The id of a post of Alice's that is out."""
        result = self.post(**fields).json()["results"][0]
        assert result["status"] == "published", result
        return str(result["postId"])


Send = Callable[[RequestCast], httpx.Response]


def make_picture(kind: str = "PNG", size: tuple[int, int] = (8, 8)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, "teal").save(file, kind)
    return file.getvalue()


def inline_item(content: bytes, kind: str = "image", **fields: Any) -> dict[str, Any]:
    """A media item that carries its bytes."""
    return {"kind": kind, "bytesBase64": base64.b64encode(content).decode(), **fields}
