"""Publish plans made together with the claim, equal to those of `prepare`."""

from __future__ import annotations

from typing import Any

import pytest

from socialpub import platforms
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.publishing import offline_plan
from socialpub.domain.publishing.intents import RunSnapshot
from socialpub.platforms.contract import ConnectorAccount, Draft, PublishWarning, Ready, Tokens, Upstream
from tests.support.app_server import AppServer, Person, format_instant
from tests.support.platforms.scripted_upstream import NONCE, NOW, ScriptedTransport

WHO = ConnectorAccount(
    "urn:li:person:a1", "Alice", {"pds": "https://pds.test", "handle": "alice.test", "username": "alice"}
)
PLAIN = "Two words, a #tag and the sum of $5."
REPLY = {"replyToUri": "at://did:plc:a/app.bsky.feed.post/3k", "replyToCid": "bafy"}
CASES: list[tuple[str, str, dict[str, Any], bool]] = [
    ("bluesky", PLAIN, {}, True),
    ("bluesky", "Look at example.org", {}, False),  # its card is fetched
    ("bluesky", "Hello @bob.test", {}, False),  # who is looked up
    ("bluesky", PLAIN, REPLY, False),  # the thread's first post is read
    ("twitter", PLAIN, {}, True),
    ("twitter", "Look at example.org, @bob", {"replyToTweetId": "1"}, True),
    ("linkedin", PLAIN, {}, True),
    ("threads", PLAIN, {}, False),  # a container is made
]


@pytest.mark.parametrize("name, text, options, known", CASES, ids=[f"{case[0]}-{case[1][:8]}" for case in CASES])
def test_only_what_needs_no_call_is_planned_at_once(name: str, text: str, options: dict[str, Any], known: bool) -> None:
    connector, site = platforms.CONNECTORS[name], platforms.site(name, {})
    draft = Draft(text, options=options, now_ms=NOW, nonce=NONCE)
    planned = offline_plan.prepare_offline(connector, site, WHO, draft)
    assert (planned is not None) == known
    if known:  # a script without calls refuses every one
        up = Upstream(ScriptedTransport(), ScriptedTransport(), site, WHO, Tokens("access-token-1", "refresh-token-1"))
        prepared = connector.prepare(up, draft, None)
        assert isinstance(prepared, Ready)
        assert planned == prepared


@pytest.mark.parametrize("name", sorted(platforms.CONNECTORS))
def test_whoever_prepares_at_once_makes_the_plan_that_is_made_with_tokens(name: str) -> None:
    """Of every platform, a ninth one too: no account's tokens, and no answer, have gone into what was planned."""
    connector, site = platforms.CONNECTORS[name], platforms.site(name, {})
    draft = Draft(PLAIN, now_ms=NOW, nonce=NONCE)
    planned = offline_plan.prepare_offline(connector, site, WHO, draft)
    script = ScriptedTransport()
    up = Upstream(script, ScriptedTransport(), site, WHO, Tokens("access-token-1", "refresh-token-1"))
    try:
        prepared = connector.prepare(up, draft, None)
    except Exception:  # noqa: BLE001 - it called somebody, or wants media
        assert planned is None
    else:
        assert planned in (None, prepared)


@pytest.mark.parametrize("seconds", [None, 60])
def test_warnings_of_a_plan_made_with_the_claim_are_shown(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch, seconds: int | None
) -> None:
    plan_offline = offline_plan.plan_offline

    def plan_with_warning(service: AppContext, snapshot: RunSnapshot) -> Ready | None:
        made = plan_offline(service, snapshot)
        return made and Ready(made.plan, (PublishWarning("bluesky.text.odd", "odd"),))

    monkeypatch.setattr(offline_plan, "plan_offline", plan_with_warning)
    time = {"scheduledAt": format_instant(server.clock.now_ms() + seconds * 1000)} if seconds else {}
    answer = alice.api.publish({"text": PLAIN, "targets": [{"accountId": alice.bluesky}], **time}).json()
    post = answer["results"][0]["postId"]
    server.skip(seconds or 0)
    server.wait(post, "published")
    assert [note["code"] for note in alice.api.get(f"/v1/posts/{post}").json()["warnings"]] == ["bluesky.text.odd"]
    _, data = server.events(post)[-1]
    assert [note["code"] for note in data["warnings"]] == ["bluesky.text.odd"]
