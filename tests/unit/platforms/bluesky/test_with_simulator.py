"""Bluesky connector over a real socket against the fake Bluesky and its ledger."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError, Outcome
from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.bluesky import video
from socialpub.platforms.contract import (
    Absent,
    ConnectorAccount,
    Draft,
    DraftMedia,
    MediaFacts,
    Pending,
    Published,
    Ready,
    Tokens,
    Unknown,
    Upstream,
)
from socialpub.simulator.server import SimulatorThread
from tests.support.platforms import publish_faults
from tests.support.platforms.meta_calls import mp4
from tests.support.platforms.scripted_upstream import NONCE

PUT = "com.atproto.repo.putRecord"


@pytest.fixture
def simulator() -> Iterator[SimulatorThread]:
    with SimulatorThread(platforms=["bluesky"]) as simulator:
        yield simulator


@pytest.fixture
def stranger(simulator: SimulatorThread) -> Iterator[Upstream]:
    """A line to the fake network before anybody logged in."""
    site = bluesky.PLATFORM.site(api_base=simulator.origin("bluesky"), video_service="")
    policy = outbound.UNGUARDED_POLICY
    with (
        outbound.HttpClient(policy) as http,
        outbound.HttpClient(outbound.ConnectionPolicy(guarded=True, resolver=outbound.resolve)) as guarded,
    ):
        yield Upstream(http, guarded, site, ConnectorAccount(""), Tokens(""))


@pytest.fixture
def made(simulator: SimulatorThread) -> dict[str, Any]:
    return simulator.lab.add_account("bluesky", handle="alice.test", displayName="Alice")


@pytest.fixture
def alice(simulator: SimulatorThread, stranger: Upstream, made: dict[str, Any]) -> Upstream:
    return connected(simulator, stranger, made)


def connected(simulator: SimulatorThread, stranger: Upstream, made: dict[str, Any]) -> Upstream:
    fields = {"handle": "@alice.test", "password": made["appPassword"]}
    identity, tokens = bluesky.login(stranger, fields, simulator.lab.clock.now_ms())
    account = ConnectorAccount(identity.platform_account_id, identity.display_name, identity.extra)
    return Upstream(stranger.http, stranger.guarded, stranger.site, account, tokens)


def posted(simulator: SimulatorThread) -> list[tuple[str, str | None]]:
    return [(entry.kind, entry.text) for entry in simulator.lab.ledger.entries()]


def draft(simulator: SimulatorThread, text: str = "hello", **more: Any) -> Draft:
    return Draft(text, now_ms=simulator.lab.clock.now_ms(), nonce=NONCE, **more)


def prepared(up: Upstream, content: Draft) -> dict[str, Any]:
    ready = bluesky.prepare(up, content, None)
    assert isinstance(ready, Ready)
    return ready.plan


def test_the_account_is_found_by_its_handle(
    stranger: Upstream, simulator: SimulatorThread, made: dict[str, Any]
) -> None:
    up = connected(simulator, stranger, made)
    origin = simulator.origin("bluesky")
    assert up.account == ConnectorAccount(made["did"], "Alice", {"handle": "alice.test", "pds": origin})
    assert up.tokens.expires_at_ms is not None
    assert up.tokens.expires_at_ms > simulator.lab.clock.now_ms()


def test_a_wrong_password_and_an_unknown_handle_are_told_apart(stranger: Upstream, made: dict[str, Any]) -> None:
    for handle, said in (("alice.test", "Invalid identifier or password"), ("nobody.test", "knows no account")):
        with pytest.raises(ApiError, match=said) as caught:
            bluesky.login(stranger, {"handle": handle, "password": "aaaa-bbbb-cccc-dddd"}, 0)
        assert caught.value.code == "platform_auth_failed"


def test_a_rich_post_with_an_image_and_a_first_comment_arrive_once(
    simulator: SimulatorThread, alice: Upstream, tmp_path: Path
) -> None:
    into = io.BytesIO()
    Image.new("RGB", (40, 30)).save(into, "JPEG")
    path = tmp_path / "a.jpg"
    path.write_bytes(into.getvalue())
    item = DraftMedia(
        "image", "a cat", facts=MediaFacts("image/jpeg", path.stat().st_size, width=40, height=30), path=path
    )
    text = "👋 @alice.test #tag https://example.com"
    content = draft(simulator, text, items=(item,), options={"langs": ["en"]}, first_comment="more")
    plan = prepared(alice, content)
    assert plan == prepared(alice, content)
    post = bluesky.send(alice, plan)
    answered = bluesky.comment(alice, content, post, plan)
    comment = bluesky.send(alice, answered)
    assert bluesky.send(alice, plan) == post == bluesky.settle(alice, plan, 0)
    assert bluesky.send(alice, answered) == comment
    assert posted(simulator) == [("post", text), ("comment", "more")]
    first = simulator.lab.ledger.entries()[0]
    assert first.remote_id == post.remote_id
    assert [(medium.type, medium.alt) for medium in first.media] == [("image/jpeg", "a cat")]


def test_labels_a_quote_and_the_repliers_reach_the_network_once(simulator: SimulatorThread, alice: Upstream) -> None:
    quoted = bluesky.send(alice, prepared(alice, draft(simulator, "first")))
    listed = f"at://{alice.account.platform_account_id}/app.bsky.graph.list/3k"
    options = {"labels": ["nudity"], "quoteUri": quoted.uri, "threadgate": ["mention", "follower", "following", listed]}
    content = draft(simulator, "", options=options)
    content = replace(content, now_ms=content.now_ms + 1000)
    plan = prepared(alice, content)
    assert plan == prepared(alice, content)
    assert isinstance(bluesky.settle(alice, plan, 0), Absent)
    post = bluesky.send(alice, plan)
    assert bluesky.settle(alice, plan, 0) == post
    with pytest.raises(ApiError) as caught:
        bluesky.send(alice, plan)
    assert caught.value.outcome is Outcome.AMBIGUOUS  # as a real server answers a key that is there: settled by a look
    assert posted(simulator) == [("post", "first"), ("post", ""), ("threadgate", None)]
    _, entry, gate = simulator.lab.ledger.entries()
    record, gated = (write["value"] for write in entry.request["writes"])
    assert record["labels"]["values"] == [{"val": "nudity"}]
    assert record["embed"]["record"] == {"uri": quoted.uri, "cid": quoted.cid}
    assert gate.remote_id.rpartition("/")[2] == str(post.remote_id).rpartition("/")[2]
    rules = [{"$type": f"app.bsky.feed.threadgate#{name}Rule"} for name in ("mention", "follower", "following")]
    assert gated["allow"] == [*rules, {"$type": "app.bsky.feed.threadgate#listRule", "list": listed}]
    assert gated["post"] == post.uri


def test_a_post_that_nobody_may_answer_gets_an_empty_gate(simulator: SimulatorThread, alice: Upstream) -> None:
    plan = prepared(alice, draft(simulator, options={"threadgate": ["none"]}))
    bluesky.send(alice, plan)
    assert plan["gate"]["allow"] == []
    assert posted(simulator) == [("post", "hello"), ("threadgate", None)]


def test_a_post_to_quote_that_is_not_there_is_a_refusal(simulator: SimulatorThread, alice: Upstream) -> None:
    missing = f"at://{alice.account.platform_account_id}/app.bsky.feed.post/3n2qaial32p6v"
    with pytest.raises(ApiError) as caught:
        bluesky.prepare(alice, draft(simulator, options={"quoteUri": missing}), None)
    assert (caught.value.rule, caught.value.outcome) == ("bluesky.quote.uri", Outcome.REJECTED)
    assert posted(simulator) == []


# The fault `missing_id` knows the ids at the top of an answer only.
GATED = [case for case in publish_faults.FAULTS if case[0] != "missing_id"]


@pytest.mark.matrix
@pytest.mark.parametrize(("fault", "outcome", "effect"), GATED)
def test_a_look_tells_of_a_post_with_a_gate_too(
    simulator: SimulatorThread, alice: Upstream, fault: str, outcome: Outcome, effect: bool
) -> None:
    plan = prepared(alice, draft(simulator, options={"threadgate": ["none"]}))
    simulator.lab.faults.add([{"fault": fault, "operation": "com.atproto.repo.applyWrites", "times": 1}])
    with pytest.raises(ApiError) as caught:
        bluesky.send(alice, plan)
    assert caught.value.outcome is outcome
    found = bluesky.settle(alice, plan, 0)
    assert isinstance(found, Published if effect else Absent)
    if not effect:
        assert bluesky.send(alice, plan) == bluesky.settle(alice, plan, 0)
    assert posted(simulator) == [("post", "hello"), ("threadgate", None)]


@pytest.mark.parametrize(
    ("part", "fault"),
    [(65_536, None), (65_536, "reset_before"), (65_536, "reset_after"), (65_536, "status:503"), (0, None)],
)
def test_a_large_video_arrives_whole_whatever_happens_to_a_part(
    simulator: SimulatorThread,
    alice: Upstream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    part: int,
    fault: str | None,
) -> None:
    monkeypatch.setattr(video, "PARTS_FROM", 10_000)
    simulator.lab.configure(processingMs=0)
    simulator.lab.fake("bluesky").videos.part = part  # type: ignore[attr-defined]
    alice = replace(alice, site=bluesky.PLATFORM.site(api_base=simulator.origin("bluesky")))
    path = tmp_path / "v.mp4"
    path.write_bytes(mp4(filler=200_000))
    facts = MediaFacts("video/mp4", path.stat().st_size, width=40, height=30)
    content = draft(simulator, items=(DraftMedia("video", facts=facts, path=path),))
    if fault:
        for operation in ("uploadPart", "finishUpload"):
            simulator.lab.faults.add([{"fault": fault, "operation": f"app.bsky.video.{operation}", "times": 1}])
    saved: dict[str, Any] | None = None
    while isinstance(found := bluesky.prepare(alice, content, saved), Pending):
        saved = found.saved
    bluesky.send(alice, found.plan)
    (entry,) = simulator.lab.ledger.posts("bluesky")
    assert entry.media[0].size == path.stat().st_size
    calls = [call.operation for call in simulator.lab.calls]
    assert calls.count("app.bsky.video.uploadVideo") == (part == 0)


def test_another_record_under_the_key_is_refused_and_nothing_is_changed(
    simulator: SimulatorThread, alice: Upstream
) -> None:
    plan = prepared(alice, draft(simulator))
    bluesky.send(alice, plan)
    other = plan | {"record": plan["record"] | {"text": "other"}}
    with pytest.raises(ApiError) as caught:
        bluesky.send(alice, other)
    assert (caught.value.rule, caught.value.outcome) == ("bluesky.record.conflict", Outcome.REJECTED)
    assert isinstance(bluesky.settle(alice, other, 0), Unknown)
    assert posted(simulator) == [("post", "hello")]


FAULTS = [
    *publish_faults.FAULTS,
    ("status:502", Outcome.AMBIGUOUS, False),
    ("redirect_private", Outcome.AMBIGUOUS, False),
]


@pytest.mark.parametrize(("fault", "outcome", "effect"), FAULTS)
def test_lookup_resolves_every_write_and_a_repeat_never_doubles(
    simulator: SimulatorThread, alice: Upstream, fault: str, outcome: Outcome, effect: bool
) -> None:
    plan = prepared(alice, draft(simulator))
    simulator.lab.faults.add([{"fault": fault, "operation": PUT, "times": 1}])
    with pytest.raises(ApiError) as caught:
        bluesky.send(alice, plan)
    assert caught.value.outcome is outcome
    assert len(posted(simulator)) == effect
    assert isinstance(bluesky.settle(alice, plan, 0), Published if effect else Absent)
    post = bluesky.send(alice, plan)
    assert bluesky.settle(alice, plan, 0) == post
    assert posted(simulator) == [("post", "hello")]


@pytest.mark.parametrize("fault", ["status:500", "html", "reset_before", "truncated", "missing_id", "endless"])
def test_a_look_that_fails_is_no_absence(simulator: SimulatorThread, alice: Upstream, fault: str) -> None:
    plan = prepared(alice, draft(simulator))
    bluesky.send(alice, plan)
    # Twice: a look is made again where a kept connection has died under it.
    simulator.lab.faults.add([{"fault": fault, "operation": "com.atproto.repo.getRecord", "times": 2}])
    assert isinstance(bluesky.settle(alice, plan, 0), Unknown)


def test_an_expired_access_token_asks_for_a_refresh_which_mends_it(simulator: SimulatorThread, alice: Upstream) -> None:
    plan = prepared(alice, draft(simulator))
    simulator.lab.end_tokens("bluesky")
    with pytest.raises(ApiError) as caught:
        bluesky.send(alice, plan)
    assert (caught.value.stale_token, caught.value.outcome) == (True, Outcome.NOT_SENT)
    renewed = bluesky.refresh(alice, simulator.lab.clock.now_ms())
    bluesky.send(Upstream(alice.http, alice.guarded, alice.site, alice.account, renewed), plan)
    assert posted(simulator) == [("post", "hello")]


def test_a_refresh_whose_answer_was_lost_can_be_repeated(simulator: SimulatorThread, alice: Upstream) -> None:
    operation = "com.atproto.server.refreshSession"
    simulator.lab.faults.add([{"fault": "reset_after", "operation": operation, "times": 1}])
    with pytest.raises(ApiError) as caught:
        bluesky.refresh(alice, 0)
    assert caught.value.outcome is Outcome.AMBIGUOUS
    assert bluesky.refresh(alice, 0).refresh


def test_an_ended_session_cannot_be_renewed(simulator: SimulatorThread, alice: Upstream) -> None:
    bluesky.revoke(alice)
    with pytest.raises(ApiError) as caught:
        bluesky.refresh(alice, 0)
    assert (caught.value.code, caught.value.outcome) == ("platform_auth_failed", Outcome.REJECTED)
    bluesky.revoke(alice)


def test_a_reply_to_a_reply_stays_in_the_thread(simulator: SimulatorThread, alice: Upstream) -> None:
    first = prepared(alice, draft(simulator, "root"))
    root = bluesky.send(alice, first)
    middle = bluesky.send(alice, bluesky.comment(alice, draft(simulator, first_comment="middle"), root, first))
    options = {"replyToUri": middle.uri, "replyToCid": middle.cid}
    later = Draft("leaf", options=options, now_ms=simulator.lab.clock.now_ms() + 5, nonce=NONCE)
    plan = prepared(alice, later)
    assert plan["record"]["reply"]["root"] == {"uri": root.uri, "cid": root.cid}
    bluesky.send(alice, plan)
    assert [kind for kind, _ in posted(simulator)] == ["post", "comment", "comment"]
