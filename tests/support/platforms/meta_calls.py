"""Test accounts, media and refusals for Facebook, Instagram and Threads."""

from __future__ import annotations

import hmac
import io
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import ConnectorAccount, DraftMedia, MediaFacts, Platform, Tokens, Upstream
from tests.support.platforms.scripted_upstream import SITE, ExpectedCall, ScriptedTransport, make_response

STAMP = "2026-11-20T09:10:12+0000"


def graph_refusal(
    code: int, subcode: int | None = None, message: str = "said so", status: int = 400, **more: Any
) -> UpstreamResponse:
    """A refusal in Graph's shape; `headers` among `more` go into the reply."""
    headers = more.pop("headers", {})
    error = {"message": message, "type": "OAuthException", "code": code, "fbtrace_id": "A"}
    error |= {"error_subcode": subcode} if subcode is not None else {}
    return make_response(status, {"error": error | more}, **headers)


def make_upstream(
    platform: Platform,
    *calls: ExpectedCall,
    account: str = "1784",
    extra: Mapping[str, Any] | None = None,
    tokens: Tokens | None = None,
    bound: frozenset[str] = frozenset(),
) -> Upstream:
    """A line to Alice's account; `calls` are those to come, on Facebook each with the proof that its token wants."""
    who = ConnectorAccount(account, "Alice", dict(extra or {"username": "alice"}))
    held = tokens or Tokens("access-token-1", "access-token-1")
    proven = [_proven(call) if platform.name == "facebook" else call for call in calls]
    return Upstream(ScriptedTransport(list(proven)), ScriptedTransport(), platform.site(**SITE), who, held, bound)


def _proven(call: ExpectedCall) -> ExpectedCall:
    scheme, _, token = call.headers.get("Authorization", "").partition(" ")
    if not scheme:
        return call
    digest = hmac.new(SITE["client_secret"].encode(), token.encode(), "sha256").hexdigest()
    return replace(call, params={**(call.params or {}), "appsecret_proof": digest})


# --- Media -----------------------------------------------------------------------------------------------------------


def jpeg(width: int = 40, height: int = 40) -> bytes:
    into = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 60)).save(into, "JPEG")
    return into.getvalue()


def _box(kind: str, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I", len(body) + 8) + kind.encode() + body


def mp4(seconds: int = 5, filler: int = 1000) -> bytes:
    """A video of 30 frames a second, 720 by 1280, H.264 and no sound, as its headers say; its frames are nothing."""
    frames, ticks = seconds * 30, seconds * 1000
    matrix = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
    config = _box("avcC", bytes.fromhex("0142c01fffe1000867 42c01f95a014 01 01000468ce3c80".replace(" ", "")))
    entry = _box(
        "avc1", bytes(6), b"\0\1", bytes(16), struct.pack(">HHIIIH", 720, 1280, 0x480000, 0x480000, 0, 1), bytes(32),
        b"\0\x18\xff\xff", config,
    )  # fmt: skip
    table = _box(
        "stbl",
        _box("stsd", struct.pack(">II", 0, 1), entry),
        _box("stts", struct.pack(">IIII", 0, 1, frames, 1000 // 30)),
        _box("stsc", struct.pack(">IIIII", 0, 1, 1, frames, 1)),
        _box("stsz", struct.pack(">III", 0, 6, frames)),
        _box("stco", struct.pack(">III", 0, 1, 40)),
    )
    links = _box("dinf", _box("dref", struct.pack(">II", 0, 1), _box("url ", struct.pack(">I", 1))))
    media = _box(
        "mdia",
        _box("mdhd", struct.pack(">IIIIIHH", 0, 0, 0, 1000, ticks, 0x55C4, 0)),
        _box("hdlr", struct.pack(">II4sIII", 0, 0, b"vide", 0, 0, 0), b"lab\0"),
        _box("minf", _box("vmhd", struct.pack(">IQ", 1, 0)), links, table),
    )
    head = _box(
        "tkhd",
        struct.pack(">IIIIII", 3, 0, 0, 1, 0, ticks),
        bytes(16),
        matrix,
        struct.pack(">II", 720 << 16, 1280 << 16),
    )
    numbers = struct.pack(">IIIIIIH", 0, 0, 0, 1000, ticks, 0x10000, 0x100)
    movie = _box("mvhd", numbers, bytes(10), matrix, bytes(24), struct.pack(">I", 2))
    return b"".join(
        (
            _box("ftyp", b"isom", bytes(4), b"isomavc1"),
            _box("moov", movie, _box("trak", head, media)),
            _box("mdat", bytes(max(filler, frames * 6))),
        )
    )


def image(url: str = "https://cdn.example.com/a.jpg", alt: str | None = None, path: Path | None = None) -> DraftMedia:
    return DraftMedia("image", alt, url, facts=MediaFacts("image/jpeg", 100, width=40, height=40), path=path)


def video(url: str = "https://cdn.example.com/v.mp4", alt: str | None = None, path: Path | None = None) -> DraftMedia:
    return DraftMedia("video", alt, url, facts=MediaFacts("video/mp4", 1000, duration_ms=5000), path=path)
