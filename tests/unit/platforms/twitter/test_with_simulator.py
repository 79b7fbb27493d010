"""X connector over real sockets against the fake X and its ledger.

Requests that reached the fake are validated against X's OpenAPI description where that is available.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import jsonschema
import pytest

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError, Outcome
from socialpub.platforms.contract import Absent, ConnectorAccount, DraftMedia, Pending, Ready, Tokens, Unknown
from socialpub.platforms.kit import oauth
from socialpub.platforms.twitter import connector as twitter
from socialpub.simulator.server import SimulatorThread
from tests.support.fixed_clock import FixedClock
from tests.support.platforms import live_connector, publish_faults
from tests.support.platforms.live_connector import connect_alice
from tests.support.platforms.meta_calls import jpeg, mp4
from tests.support.platforms.twitter_calls import item

SHARED = Path(__file__).parents[5] / "shared" / "upstream-specs" / "x"
CALLBACK = "https://pub.example/connect/twitter/callback"
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"


@dataclass
class Line(live_connector.LiveConnector):
    """Alice's account; `folder` holds her media."""

    folder: Path

    def item(self, kind: str = "image", alt: str | None = None) -> DraftMedia:
        if kind == "video":
            return item(self.folder / "v.mp4", "video/mp4", mp4(filler=2_500_000), alt, None)
        return item(self.folder / "a.jpg", "image/jpeg", jpeg(), alt)

    def refused(self, text: str = "hello", *items: DraftMedia, **options: Any) -> str | None:
        """The rule by which X does not take a post."""
        with pytest.raises(ApiError) as caught:
            self.publish(text, *items, **options)
        return caught.value.rule


@pytest.fixture
def line(simulator: SimulatorThread, clock: FixedClock, client: outbound.HttpClient, tmp_path: Path) -> Line:
    return Line("twitter", simulator, clock, connect_alice("twitter", simulator, client), tmp_path)


# --- Publishing ------------------------------------------------------------------------------------------------------

TEXTS = ["words", "a & b <c>", "see https://Example.com/a/?b=1#c and example.org/x/", "👨‍👩‍👧 日本語", "x\n\n\ny  z"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_becomes_public_once_and_is_found_again(line: Line, text: str) -> None:
    plan, since = line.prepared(line.draft(text)), line.clock.now_ms()
    assert line.settle(plan, since) == Absent({"posts": 0})
    post = line.send(plan)
    assert line.settle(plan, since) == post
    assert line.posted() == [("post", text, 0)]


def test_every_kind_of_media_becomes_public_and_is_found_again(line: Line) -> None:
    picture, film = line.item(alt="a cat"), line.item("video")
    for content in (line.draft("", picture), line.draft("film", film), line.draft("two", picture, line.item())):
        plan, since = line.prepared(content), line.clock.now_ms()
        post = line.send(plan)
        assert line.settle(plan, since) == post
    assert line.posted() == [("post", "", 1), ("post", "film", 1), ("post", "two", 2)]
    first, second, _ = line.simulator.lab.ledger.entries("twitter")
    assert (first.media[0].alt, second.media[0].size) == ("a cat", (line.folder / "v.mp4").stat().st_size)


@pytest.mark.parametrize("named", [0, 1])
def test_a_post_is_never_absent_where_x_gave_no_keys_of_media(line: Line, named: int) -> None:
    """X's description requires the id of an upload alone."""
    plan, since = line.prepared(line.draft("two", line.item(), line.item())), line.clock.now_ms()
    plan["keys"] = plan["keys"][1 : 1 + named]
    assert isinstance(line.settle(plan, since), Absent)
    post = line.send(plan)
    assert line.settle(plan, since) == (post if named else Unknown({"alike": [post.remote_id]}))
    line.up = replace(line.up, bound={post.remote_id})
    assert isinstance(line.settle(plan, since), Absent)


def test_a_long_text_of_a_subscriber_is_found_by_its_note(line: Line) -> None:
    text = "many words & https://example.com " * 40
    assert line.refused(text) == "twitter.text.max_graphemes"
    made = line.simulator.lab.add_account("twitter", handle="paid", subscriptionType="Premium")
    account = ConnectorAccount(made["platformAccountId"], made["displayName"], made["extra"])
    line.up = replace(line.up, account=account, tokens=Tokens(made["accessToken"]))
    plan, since = line.prepared(line.draft(text)), line.clock.now_ms()
    assert line.settle(plan, since) == Absent({"posts": 0})
    post = line.send(plan)
    assert line.settle(plan, since) == post


def test_answers_and_quotes_are_found_again(line: Line) -> None:
    first = line.publish("first")
    line.fake.posts.quoting = True
    for text, options in (("yes", {"replyToTweetId": first.remote_id}), ("see", {"quoteTweetId": first.remote_id})):
        plan, since = line.prepared(line.draft(text, **options)), line.clock.now_ms()
        post = line.send(plan)
        assert line.settle(plan, since) == post
        assert isinstance(line.settle(plan | {"body": {"text": text}}, since), Absent)
    assert line.posted() == [("post", "first", 0), ("comment", "yes", 0), ("post", "see", 0)]


def test_the_options_reach_x(line: Line) -> None:
    line.publish("hi", replySettings="following", communityId="5", madeWithAi=True, paidPartnership=True)
    (entry,) = line.simulator.lab.ledger.entries("twitter")
    settings = {"reply_settings": "following", "community_id": "5", "made_with_ai": True, "paid_partnership": True}
    assert entry.request == {"text": "hi"} | settings


def test_a_new_post_is_missing_from_the_list_for_a_while(line: Line) -> None:
    line.simulator.lab.configure(list_lag_ms=5000)
    plan, since = line.prepared(line.draft()), line.clock.now_ms()
    post = line.send(plan)
    assert isinstance(line.settle(plan, since), Absent)
    line.clock.ms += 5000
    assert line.settle(plan, since) == post


def test_looking_reads_every_page(line: Line) -> None:
    line.simulator.lab.configure(list_limit=5)
    plan, since = line.prepared(line.draft("ours")), line.clock.now_ms()
    post = line.send(plan)
    for number in range(12):
        line.publish(f"later {number}")
    assert line.settle(plan, since) == post


@pytest.mark.parametrize("spelling", ["post", "tweet", "both"])
def test_looking_finds_the_spelling_that_x_takes(line: Line, spelling: str) -> None:
    line.fake.posts.spelling = spelling
    first = line.publish("first").remote_id
    plan, since = line.prepared(line.draft("see https://example.com", replyToTweetId=first)), line.clock.now_ms()
    post = line.send(plan)
    assert line.settle(plan, since) == post


FAULTS = [*publish_faults.FAULTS, ("status:402", Outcome.REJECTED, False), ("status:401", Outcome.REJECTED, False)]


@pytest.mark.parametrize(("fault", "outcome", "effect"), FAULTS)
def test_whatever_happens_to_the_public_call_looking_tells(
    line: Line, fault: str, outcome: Outcome, effect: bool
) -> None:
    line.is_told(line.draft(), "tweets.create", fault, outcome, effect)


STEPS = ["media.initialize", "media.append", "media.finalize", "media.status"]


@pytest.mark.matrix
@pytest.mark.parametrize("fault", ["reset_after", "status:503", "html", "truncated", "error_after"])
@pytest.mark.parametrize("operation", STEPS)
def test_an_upload_goes_on_after_whatever_happens_to_one_of_its_calls(line: Line, operation: str, fault: str) -> None:
    line.simulator.lab.configure(processing_ms=2500)
    line.simulator.lab.faults.add([{"fault": fault, "operation": operation, "nth": 1}])
    line.publish("film", line.item("video"))
    (entry,) = line.simulator.lab.ledger.entries("twitter")
    assert entry.media[0].size == (line.folder / "v.mp4").stat().st_size


def test_what_x_does_not_take_is_told_by_its_rule(line: Line) -> None:
    bob = line.simulator.lab.add_account("twitter", handle="bob")
    other = replace(line.up, tokens=Tokens(bob["accessToken"]))
    theirs = twitter.send(other, {"body": {"text": "hi"}, "keys": []}).remote_id
    line.publish("twice")
    line.clock.ms += 1000
    assert line.refused("twice") == "twitter.post.duplicate"
    assert line.refused("no", replyToTweetId=theirs) == "twitter.reply.not_allowed"
    assert line.refused("no", replyToTweetId="1") == "twitter.reply.not_allowed"
    assert line.refused("no", quoteTweetId=theirs) == "twitter.quote.not_allowed"
    assert line.refused("$AA and $BB") == "twitter.text.cashtag_max"
    line.fake.uploads.failing.append("too odd")
    assert line.refused("film", line.item("video")) == "twitter.media.video_processing_failed"
    line.fake.people.credits = 0
    assert line.refused("no money") == "twitter.credits.exhausted"
    assert len(line.posted()) == 2


def test_one_who_is_mentioned_may_answer(line: Line) -> None:
    bob = line.simulator.lab.add_account("twitter", handle="bob")
    other = replace(line.up, tokens=Tokens(bob["accessToken"]))
    theirs = twitter.send(other, {"body": {"text": "what says @Alice?"}, "keys": []}).remote_id
    line.publish("this", replyToTweetId=theirs)


def test_media_that_ran_out_before_the_post_are_uploaded_anew(line: Line) -> None:
    plan = line.prepared(line.draft("picture", line.item()))
    line.clock.ms += 86_400_000
    line.up = replace(line.up, tokens=twitter.refresh(line.up, line.clock.ms))
    with pytest.raises(ApiError) as caught:
        line.send(plan)
    assert caught.value.outcome is Outcome.NOT_SENT
    line.publish("picture", line.item())


def test_a_video_that_ran_out_while_waiting_is_uploaded_anew(line: Line) -> None:
    line.simulator.lab.configure(processing_ms=60_000)
    content = line.draft("film", line.item("video"))
    waiting = twitter.prepare(line.up, content, None)
    assert isinstance(waiting, Pending)
    line.clock.ms += 86_400_000
    line.simulator.lab.configure(processing_ms=0)
    line.up = replace(line.up, tokens=twitter.refresh(line.up, line.clock.ms))
    assert isinstance(twitter.prepare(line.up, content, waiting.saved), Ready)


def test_the_window_of_a_call_is_told_and_kept(line: Line) -> None:
    line.simulator.lab.configure(rate_limits=True)
    for number in range(100):
        line.send({"body": {"text": f"post {number}"}, "keys": []})
    line.clock.ms += 60_000
    with pytest.raises(ApiError) as caught:
        line.publish("one more")
    assert (caught.value.outcome, caught.value.retry_after) == (Outcome.THROTTLED, 840)
    line.clock.ms += 840_000
    line.publish("one more")


# --- Connecting ------------------------------------------------------------------------------------------------------


def code(line: Line, **changes: str) -> str:
    url = oauth.build_authorize_url(twitter.PLATFORM, line.up.site, CALLBACK, "state-1", VERIFIER)
    back = httpx.get(url, trust_env=False, params=dict(parse_qsl(urlsplit(url).query)) | changes)
    return dict(parse_qsl(urlsplit(back.headers["location"]).query))["code"]


def exchanged(line: Line, code: str, verifier: str = VERIFIER) -> Tokens:
    now = line.clock.now_ms()
    return oauth.exchange(twitter.PLATFORM, line.up.http, line.up.site, code, CALLBACK, verifier, now)


def test_a_login_brings_an_account_that_publishes(line: Line) -> None:
    tokens = exchanged(line, code(line))
    (one,) = twitter.identify(replace(line.up, tokens=tokens), line.clock.now_ms())
    assert (one.identity.platform_account_id, one.identity.display_name) == (
        line.up.account.platform_account_id,
        "@alice",
    )
    assert one.tokens.expires_at_ms == line.clock.now_ms() + 7_200_000
    line.up = replace(line.up, tokens=one.tokens)
    line.publish()


def test_a_code_works_once_for_thirty_seconds_and_with_its_verifier(line: Line) -> None:
    spent = code(line)
    exchanged(line, spent)
    late = code(line)
    line.clock.ms += 30_000
    for refused, verifier in ((spent, VERIFIER), (late, VERIFIER), (code(line), "x" * 43)):
        with pytest.raises(ApiError) as caught:
            exchanged(line, refused, verifier)
        assert caught.value.code == "platform_auth_failed"


def test_a_missing_scope_is_named(line: Line) -> None:
    with pytest.raises(ApiError, match=r"media\.write, offline\.access"):
        exchanged(line, code(line, scope="tweet.read tweet.write users.read"))


def test_a_refresh_token_works_once_and_a_second_use_ends_the_connection(line: Line) -> None:
    old = line.up
    line.up = replace(old, tokens=twitter.refresh(old, line.clock.now_ms()))
    line.publish()
    for up in (old, line.up):
        with pytest.raises(ApiError) as caught:
            twitter.refresh(up, line.clock.now_ms())
        assert caught.value.code == "platform_auth_failed"
    with pytest.raises(ApiError) as caught:
        line.publish("more")
    assert (caught.value.code, caught.value.stale_token) == ("platform_auth_failed", True)


def test_an_access_token_ends_after_two_hours(line: Line) -> None:
    line.clock.ms += 7_200_000
    with pytest.raises(ApiError) as caught:
        line.publish()
    assert caught.value.stale_token


def test_disconnecting_ends_the_tokens_and_may_be_repeated(line: Line) -> None:
    twitter.revoke(line.up)
    twitter.revoke(line.up)
    with pytest.raises(ApiError) as caught:
        line.publish()
    assert caught.value.code == "platform_auth_failed"


# --- The official description ----------------------------------------------------------------------------------------


@pytest.mark.upstream
@pytest.mark.skipif(not SHARED.is_dir(), reason="the official descriptions (../shared) are not here")
def test_everything_that_is_sent_fits_the_official_description(line: Line) -> None:
    spec = json.loads(next(SHARED.glob("*openapi*.json")).read_text())
    first = line.publish("see https://example.com", line.item(alt="a cat"))
    line.publish("film", line.item("video"))
    line.fake.posts.quoting = True
    line.publish("yes", replyToTweetId=first.remote_id)
    line.publish("see", quoteTweetId=first.remote_id)
    line.settle(line.prepared(line.draft("other")), line.clock.now_ms())
    twitter.identify(line.up, line.clock.now_ms())
    checked = [_check(spec, call) for call in line.simulator.lab.calls]
    assert set(checked) == {
        "/2/tweets",
        "/2/media/upload",
        "/2/media/upload/initialize",
        "/2/media/upload/{id}/append",
        "/2/media/upload/{id}/finalize",
        "/2/media/metadata",
        "/2/users/{id}/tweets",
        "/2/users/me",
    }


def _check(spec: dict[str, Any], call: Any) -> str:
    """The described path of a call whose body and query fit it."""
    parts = urlsplit(call.path)
    found = [path for path in spec["paths"] if _fits(path, parts.path)]
    path = min(found, key=lambda path: path.count("{"))
    operation = spec["paths"][path][call.method.lower()]
    content = operation.get("requestBody", {}).get("content", {})
    kind = call.headers.get("content-type", "").partition(";")[0]
    assert bool(content) == bool(call.size)
    assert not content or kind in content
    if kind == "application/json":
        schema = content[kind]["schema"] | {"components": spec["components"]}
        jsonschema.Draft7Validator(schema).validate(json.loads(call.body))
    _check_query(spec, operation, parse_qs(parts.query))
    return path


def _fits(path: str, actual: str) -> bool:
    pairs = list(zip(path.split("/"), actual.split("/"), strict=False))
    same = all(wanted == given or wanted.startswith("{") for wanted, given in pairs)
    return same and path.count("/") == actual.count("/")


def _check_query(spec: dict[str, Any], operation: dict[str, Any], query: dict[str, list[str]]) -> None:
    named = [_followed(spec, each) for each in operation.get("parameters", ())]
    known = {each["name"]: each["schema"] for each in named if each["in"] == "query"}
    for name, (value,) in query.items():
        schema = known[name]
        given: Any = value.split(",") if schema.get("type") == "array" else value
        typed = int(value) if schema.get("type") == "integer" else given
        jsonschema.Draft7Validator(schema | {"components": spec["components"]}).validate(typed)


def _followed(spec: dict[str, Any], parameter: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in parameter:
        return parameter
    return dict(spec["components"]["parameters"][parameter["$ref"].rpartition("/")[2]])
