"""X test account, drafts, expected API calls and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from socialpub.base.errors import ApiError
from socialpub.base.http import UPLOAD_SECONDS, UpstreamResponse
from socialpub.platforms.contract import ConnectorAccount, Draft, DraftMedia, MediaFacts, Tokens, Upstream
from socialpub.platforms.twitter import connector as twitter
from tests.support.platforms.scripted_upstream import (
    AUTH,
    BOUNDARY,
    NONCE,
    NOW,
    SITE,
    ExpectedCall,
    ScriptedTransport,
    make_response,
)

API = "https://api.x.com"


def make_upstream(
    *calls: ExpectedCall, extra: Mapping[str, Any] | None = None, bound: frozenset[str] = frozenset()
) -> Upstream:
    """A line to Alice's account; `calls` are those to come."""
    known = {"username": "alice", "subscriptionType": "None"} if extra is None else extra
    who = ConnectorAccount("1500", "@alice", known)
    tokens = Tokens("access-token-1", "refresh-token-1")
    return Upstream(
        ScriptedTransport(list(calls)), ScriptedTransport(), twitter.PLATFORM.site(**SITE), who, tokens, bound
    )


def draft(text: str = "hello", *items: DraftMedia, **options: Any) -> Draft:
    return Draft(text, items=items, options=options, now_ms=NOW, nonce=NONCE)


def item(path: Path, kind: str, content: bytes, alt: str | None = None, frames: int | None = 1) -> DraftMedia:
    """A medium in a file."""
    path.write_bytes(content)
    facts = MediaFacts(kind, len(content), frames=frames)
    return DraftMedia(facts.kind, alt, facts=facts, path=path)


# --- Calls and answers ---------------------------------------------------------------------------------------------


def problem_response(
    status: int, detail: str = "said so", title: str = "Forbidden", kind: str = "", **headers: str
) -> UpstreamResponse:
    """A problem document; `kind` is the last part of its type."""
    type = f"https://api.x.com/2/problems/{kind}" if kind else "about:blank"
    return make_response(status, {"title": title, "detail": detail, "type": type, "status": status}, **headers)


def invalid_response(message: str, status: int = 400) -> UpstreamResponse:
    """What X says in the inner error."""
    kind = "https://api.x.com/2/problems/invalid-request"
    body = {"errors": [{"message": message, "parameters": {"x": ["y"]}}], "title": "Invalid Request", "type": kind}
    return make_response(status, body | {"detail": "One or more parameters to your request was invalid."})


def _form(
    path: str, fields: Mapping[str, str], kind: str, content: bytes, reply: UpstreamResponse | ApiError
) -> ExpectedCall:
    texts = "".join(
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    )
    file = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="media"; filename="media"\r\nContent-Type: {kind}'
    body = f"{texts}{file}\r\n\r\n".encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()
    headers = AUTH | {
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
        "Content-Length": str(len(body)),
    }
    return ExpectedCall("POST", f"{API}{path}", reply, headers, content=body, timeout=UPLOAD_SECONDS)


def upload_response(id: str, **more: Any) -> UpstreamResponse:
    """The answer to most steps of an upload."""
    return make_response(200, {"data": {"id": id, "media_key": f"3_{id}", "expires_after_secs": 86_400, **more}})


def processing(state: str, id: str = "71", **more: Any) -> UpstreamResponse:
    return upload_response(id, processing_info={"state": state, **more})


def one_shot(content: bytes, reply: UpstreamResponse | ApiError, kind: str = "image/jpeg") -> ExpectedCall:
    return _form("/2/media/upload", {"media_category": "tweet_image"}, kind, content, reply)


def initialize(
    total: int, reply: UpstreamResponse | ApiError | None = None, kind: str = "video/mp4", category: str = "tweet_video"
) -> ExpectedCall:
    body = {"media_type": kind, "total_bytes": total, "media_category": category}
    return ExpectedCall("POST", f"{API}/2/media/upload/initialize", reply or upload_response("71"), json=body)


def append(
    index: int,
    content: bytes,
    reply: UpstreamResponse | ApiError | None = None,
    kind: str = "video/mp4",
    id: str = "71",
) -> ExpectedCall:
    done = make_response(204, b"") if reply is None else reply
    return _form(f"/2/media/upload/{id}/append", {"segment_index": str(index)}, kind, content, done)


def finalize(reply: UpstreamResponse | ApiError | None = None, id: str = "71") -> ExpectedCall:
    return ExpectedCall("POST", f"{API}/2/media/upload/{id}/finalize", reply or upload_response(id))


def status(reply: UpstreamResponse | ApiError, id: str = "71") -> ExpectedCall:
    return ExpectedCall("GET", f"{API}/2/media/upload", reply, params={"command": "STATUS", "media_id": id})


def describe(alt: str, reply: UpstreamResponse | ApiError | None = None, id: str = "71") -> ExpectedCall:
    body = {"id": id, "metadata": {"alt_text": {"text": alt}}}
    return ExpectedCall("POST", f"{API}/2/media/metadata", reply or make_response(200, {"data": {"id": id}}), json=body)


def create(body: Mapping[str, Any], reply: UpstreamResponse | ApiError) -> ExpectedCall:
    return ExpectedCall("POST", f"{API}/2/tweets", reply, json=dict(body))
