"""What the Bluesky tests share: one account with a session, and what is called for it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from socialpub.base.errors import ApiError
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.contract import ConnectorAccount, Tokens, Upstream
from tests.platforms import upstream_kit
from tests.platforms.upstream_kit import Download, Script, answer

DID = "did:plc:lm3ip5ipkqdb7tbmw56pvthx"
BOB = "did:plc:d4x7lkvljxs722uhzpvpf4ed"
PDS = "https://pds.example.com"
SERVICE = "https://bsky.social"
PUBLIC = "https://public.api.bsky.app"
PLC = "https://plc.directory"
VIDEO = "https://video.bsky.app"
CID = "bafyreif4jtespwoq3nwgutnzzs4l47sa6b6hgqriu3o2qys4oisro3uhdu"
AUTH = {"Authorization": "Bearer access-1"}


def jwt(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"eyJhbGciOiJIUzI1NiJ9.{body}.sig"


def refusal(status: int, name: str, message: str = "said so", **headers: str) -> UpstreamResponse:
    return answer(status, {"error": name, "message": message}, **headers)


@dataclass
class Call(upstream_kit.Call):
    """A call without any headers, unless it says otherwise."""

    headers: Mapping[str, str] = field(default_factory=dict)


def upstream(
    http: Iterable[Call | Download] = (),
    guarded: Iterable[Call | Download] = (),
    *,
    tokens: Tokens | None = None,
    **settings: Any,
) -> Upstream:
    """A line to Alice's account on a server of her own; `http` and `guarded` are the calls to come."""
    return Upstream(
        Script(list(http)),
        Script(list(guarded)),
        bluesky.PLATFORM.site(**settings),
        ConnectorAccount(DID, "Alice", {"handle": "alice.example.com", "pds": PDS}),
        tokens or Tokens("access-1", "refresh-1"),
    )


def look(nsid: str, reply: UpstreamResponse | ApiError, host: str = PDS, **sent: Any) -> Call:
    """A GET that is not waited for long."""
    return xrpc("GET", nsid, reply, host, timeout=10.0, **sent)


def xrpc(method: str, nsid: str, reply: UpstreamResponse | ApiError, host: str = PDS, **sent: Any) -> Call:
    return Call(method, f"{host}/xrpc/{nsid}", reply, **sent)
