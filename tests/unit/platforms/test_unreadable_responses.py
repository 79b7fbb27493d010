"""Connector behavior on responses with an unreadable body, for every platform."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UnreadReason, UpstreamResponse
from socialpub.platforms import CONNECTORS
from socialpub.platforms.contract import ConnectorAccount, Tokens, Unknown, Upstream
from tests.support.platforms.scripted_upstream import NOW, FakeTransport, make_response

SITE = {"client_id": "app-1", "client_secret": "app-secret-1"}
ACCOUNTS = {"bluesky": "did:plc:alice", "linkedin": "urn:li:organization:1"}
SENDS: dict[str, dict[str, Any]] = {
    "bluesky": {"repo": "did:plc:alice", "collection": "app.bsky.feed.post", "rkey": "k", "record": {"text": "x"}},
    "facebook": {"kind": "feed", "message": "x", "link": "", "photos": []},
    "instagram": {"container": "1", "text": "x", "types": ["IMAGE"], "since": NOW},
    "linkedin": {"body": {"author": "urn:li:organization:1", "commentary": "x"}},
    "pinterest": {"pin": {"board_id": "1", "description": "x"}, "source": {"source_type": "image_url", "url": "u"}},
    "threads": {"container": "1", "text": "x", "types": ["TEXT_POST"], "since": NOW},
    "tiktok": {"photos": {"post_mode": "MEDIA_UPLOAD"}, "rebuilt": 0},
    "twitter": {"body": {"text": "x"}, "keys": []},
}
LOOKS = [(name, plan) for name, plan in SENDS.items() if name != "tiktok"] + [
    ("facebook", {"kind": "video", "video": "1", "session": "2", "message": ""}),
    ("instagram", SENDS["instagram"] | {"published": True}),
]
META = ("facebook", "instagram", "threads")  # whose limits are known by their code, not by the status
BODIES = [b"", b"{", b'{"data": [], "items": [], "elements": [], "meta": {"result_count": 0}', b"\x8b\x00\xff"]


class Always(FakeTransport):
    """A transport that answers everything alike."""

    def __init__(self, reply: UpstreamResponse) -> None:
        self.reply = reply

    def request(self, method: str, url: str, **sent: Any) -> UpstreamResponse:
        return self.reply


def line(name: str, reply: UpstreamResponse) -> Upstream:
    http = Always(reply)
    site = CONNECTORS[name].PLATFORM.site(**({} if name == "bluesky" else SITE))
    account = ConnectorAccount(ACCOUNTS.get(name, "17"), "Alice", {"username": "alice"})
    tokens = Tokens("access-token-1", "refresh-token-1", None, {"scopes": ["w_organization_social", "openid"]})
    return Upstream(http, http, site, account, tokens)


@pytest.mark.parametrize("unread", UnreadReason)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(("name", "plan"), LOOKS, ids=[f"{name}-{at}" for at, (name, _) in enumerate(LOOKS)])
def test_a_list_that_was_not_read_is_no_proof(
    name: str, plan: dict[str, Any], body: bytes, unread: UnreadReason
) -> None:
    up = line(name, UpstreamResponse(200, {}, body, unread=unread))
    found: object
    try:
        found = CONNECTORS[name].settle(up, plan, NOW)
    except ApiError as error:
        found = (error.code, error.outcome)
    unknown = isinstance(found, Unknown) and not found.final
    assert unknown or found == ("platform_unavailable", Outcome.NOT_SENT)


TIMES = {"facebook": "created_time", "linkedin": "createdAt", "pinterest": "created_at", "twitter": "created_at"}
OURS: dict[str, dict[str, Any]] = {
    "facebook": {"id": "1_1", "message": "x"},
    "linkedin": {"id": "urn:li:share:1", **SENDS["linkedin"]["body"]},
    "pinterest": {"id": "1", "description": "x", "is_owner": True},
    "twitter": {"id": "1", "text": "x"},
}
LISTS = {"facebook": "data", "linkedin": "elements", "pinterest": "items", "twitter": "data"}
UNREADABLE_TIMES = (None, "", "yesterday", [], {}, True, -1)


@pytest.mark.parametrize("name", OURS)
def test_a_post_without_a_readable_time_is_no_proof(name: str) -> None:
    posts = [OURS[name], *({**OURS[name], TIMES[name]: time} for time in UNREADABLE_TIMES)]
    for post in posts:
        page = {LISTS[name]: [post], "paging": {"total": 1}, "meta": {"result_count": 1}}
        up = line(name, make_response(200, page))
        found: object = Unknown()
        with contextlib.suppress(ApiError):
            found = CONNECTORS[name].settle(up, SENDS[name], NOW)
        assert isinstance(found, Unknown), post


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", [name for name in CONNECTORS if name != "bluesky"])
def test_who_connects_is_not_told_of_missing_permissions(name: str, body: bytes) -> None:
    up = line(name, UpstreamResponse(200, {}, body, unread=UnreadReason.BROKEN))
    with pytest.raises(ApiError) as caught:
        CONNECTORS[name].identify(up, NOW)
    assert caught.value.code == "platform_unavailable"


@pytest.mark.parametrize("name", CONNECTORS)
@pytest.mark.parametrize("body", BODIES)
def test_renewal_with_unread_tokens_may_have_used_up_the_old_ones(name: str, body: bytes) -> None:
    up = line(name, UpstreamResponse(200, {}, body, unread=UnreadReason.BROKEN))
    with pytest.raises(ApiError) as caught:
        CONNECTORS[name].refresh(up, NOW)  # type: ignore[attr-defined]
    assert (caught.value.code, caught.value.outcome) == ("platform_unavailable", Outcome.AMBIGUOUS)


def sent(name: str, reply: UpstreamResponse) -> ApiError:
    with pytest.raises(ApiError) as caught:
        CONNECTORS[name].send(line(name, reply), SENDS[name])
    return caught.value


@pytest.mark.parametrize("name", SENDS)
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 413, 426, 429, 500, 502, 503])
def test_the_status_of_a_refusal_decides_without_its_body(name: str, status: int) -> None:
    headers = {"retry-after": "600"}
    expected, error = (
        sent(name, UpstreamResponse(status, headers, b"")),
        sent(name, UpstreamResponse(status, headers, b"\x8b", unread=UnreadReason.BROKEN)),
    )
    names = ("code", "outcome", "rule", "stale_token", "token_refused", "retry_after", "absent", "duplicate")
    assert [getattr(error, each) for each in names] == [getattr(expected, each) for each in names]
    assert error.platform_response["status"] == status
    if error.code == "platform_unavailable":
        assert error.retry_after == 600
    if status == 429 and name not in META:
        assert error.outcome is Outcome.THROTTLED
    if status == 401:
        assert error.code == "platform_auth_failed"


@pytest.mark.parametrize("name", SENDS)
@pytest.mark.parametrize("status", [200, 201, 202, 204])
@pytest.mark.parametrize("unread", [None, *UnreadReason])
def test_a_success_without_its_body_is_told_as_one(name: str, status: int, unread: UnreadReason | None) -> None:
    error = sent(name, UpstreamResponse(status, {}, b"", unread=unread))
    assert (error.code, error.outcome) == ("platform_unavailable", Outcome.AMBIGUOUS)
    assert error.platform_response == {"status": status}
    assert f"responded with status {status}" in error.message
    assert unread is None or unread in error.message


def test_linkedin_names_its_post_in_a_header() -> None:
    for unread in (None, *UnreadReason):
        up = line("linkedin", UpstreamResponse(201, {"x-restli-id": "urn:li:share:7"}, b"", unread=unread))
        assert CONNECTORS["linkedin"].send(up, SENDS["linkedin"]).remote_id == "urn:li:share:7"
