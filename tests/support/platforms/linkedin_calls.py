"""LinkedIn test account, drafts, expected API calls and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import ConnectorAccount, Draft, DraftMedia, MediaFacts, Tokens, Upstream
from socialpub.platforms.linkedin import connector as linkedin
from tests.support.platforms import scripted_upstream
from tests.support.platforms.scripted_upstream import AUTH, NOW, SITE, ScriptedTransport, make_response

REST = "https://api.linkedin.com/rest"
PERSON = "urn:li:person:a1B2-c3_"
PAGE = "urn:li:organization:123"
IMAGE, VIDEO = "urn:li:image:C4E1", "urn:li:video:C5F2"
SHARE = "urn:li:share:7396"
VERSIONED = {**AUTH, "LinkedIn-Version": "202609", "X-Restli-Protocol-Version": "2.0.0"}
FINDER = {**VERSIONED, "X-RestLi-Method": "FINDER"}


def make_refusal(status: int, code: str, message: str = "said so", **more: Any) -> UpstreamResponse:
    """A refusal in LinkedIn's shape; `headers` among `more` go into the reply."""
    headers = more.pop("headers", {})
    return make_response(status, {"status": status, "code": code, "message": message} | more, **headers)


@dataclass
class VersionedCall(scripted_upstream.ExpectedCall):
    """A call of the versioned API, unless it says otherwise."""

    headers: Mapping[str, str] = field(default_factory=lambda: VERSIONED)


def make_upstream(
    *calls: VersionedCall,
    account: str = PERSON,
    tokens: Tokens | None = None,
    bound: frozenset[str] = frozenset(),
) -> Upstream:
    """A line to an account; `calls` are those to come, whether to the API or to the store of bytes."""
    script = ScriptedTransport(list(calls))
    held = tokens or Tokens("access-token-1", "refresh-token-1")
    return Upstream(script, script, linkedin.PLATFORM.site(**SITE), ConnectorAccount(account, "Ann"), held, bound)


def draft(text: str = "hello", *items: DraftMedia, **options: Any) -> Draft:
    return Draft(text, items=items, options=options, now_ms=NOW)


def image(path: Path, alt: str | None = None, content: bytes = b"a jpeg") -> DraftMedia:
    path.write_bytes(content)
    return DraftMedia("image", alt, facts=MediaFacts("image/jpeg", len(content), width=40, height=40), path=path)


def video(path: Path, content: bytes, alt: str | None = None) -> DraftMedia:
    path.write_bytes(content)
    return DraftMedia("video", alt, facts=MediaFacts("video/mp4", len(content), duration_ms=5000), path=path)


def document(path: Path, content: bytes = b"%PDF-1.7") -> DraftMedia:
    path.write_bytes(content)
    return DraftMedia("document", "ignored", facts=MediaFacts("application/pdf", len(content)), path=path)


def post(text: str = "hello", author: str = PERSON, visibility: str = "PUBLIC", **content: Any) -> dict[str, Any]:
    """The whole body of a post."""
    return {
        "author": author,
        "commentary": text,
        "visibility": visibility,
        "distribution": {"feedDistribution": "MAIN_FEED", "targetEntities": [], "thirdPartyDistributionChannels": []},
        **({"content": content} if content else {}),
        "lifecycleState": "PUBLISHED",
        "isReshareDisabledByAuthor": False,
    }
