"""TikTok test transport that counts streamed file bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.support.platforms import scripted_upstream

API = "https://open.tiktokapis.com/v2"
FORM = {"client_key": "app-1", "client_secret": "app-secret-1"}


@dataclass
class StreamCountingTransport(scripted_upstream.ScriptedTransport):
    """`starts`: the first byte of every body that was streamed."""

    starts: list[int] = field(default_factory=list)

    def read(self, content: bytes | Iterable[bytes]) -> int:
        """How many bytes there are; they never are in memory all at once."""
        assert not isinstance(content, bytes), "a file's bytes are streamed"
        size = 0
        for piece in content:
            if size == 0:
                self.starts.append(piece[0])
            size += len(piece)
        return size
