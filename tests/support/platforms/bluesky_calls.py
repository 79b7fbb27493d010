"""Bluesky account with a session, and builders of its expected XRPC calls and answers."""

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
from tests.support.platforms import scripted_upstream
from tests.support.platforms.scripted_upstream import ExpectedDownload, ScriptedTransport, make_response

DID = "did:plc:lm3ip5ipkqdb7tbmw56pvthx"
BOB = "did:plc:d4x7lkvljxs722uhzpvpf4ed"
PDS = "https://pds.example.com"
SERVICE = "https://bsky.social"
PUBLIC = "https://public.api.bsky.app"
PLC = "https://plc.directory"
VIDEO = "https://video.bsky.app"
CID = "bafyreif4jtespwoq3nwgutnzzs4l47sa6b6hgqriu3o2qys4oisro3uhdu"
AUTH = {"Authorization": "Bearer access-1"}


def make_jwt(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"eyJhbGciOiJIUzI1NiJ9.{body}.sig"


def make_refusal(status: int, name: str, message: str = "said so", **headers: str) -> UpstreamResponse:
    return make_response(status, {"error": name, "message": message}, **headers)


@dataclass
class BlueskyCall(scripted_upstream.ExpectedCall):
    """A call without any headers, unless it says otherwise."""

    headers: Mapping[str, str] = field(default_factory=dict)


def make_upstream(
    http: Iterable[BlueskyCall | ExpectedDownload] = (),
    guarded: Iterable[BlueskyCall | ExpectedDownload] = (),
    *,
    tokens: Tokens | None = None,
    **settings: Any,
) -> Upstream:
    """A line to Alice's account on a server of her own; `http` and `guarded` are the calls to come."""
    return Upstream(
        ScriptedTransport(list(http)),
        ScriptedTransport(list(guarded)),
        bluesky.PLATFORM.site(**settings),
        ConnectorAccount(DID, "Alice", {"handle": "alice.example.com", "pds": PDS}),
        tokens or Tokens("access-1", "refresh-1"),
    )


def lookup_call(nsid: str, reply: UpstreamResponse | ApiError, host: str = PDS, **sent: Any) -> BlueskyCall:
    """A GET that is not waited for long."""
    return xrpc_call("GET", nsid, reply, host, timeout=10.0, **sent)


def xrpc_call(method: str, nsid: str, reply: UpstreamResponse | ApiError, host: str = PDS, **sent: Any) -> BlueskyCall:
    return BlueskyCall(method, f"{host}/xrpc/{nsid}", reply, **sent)
