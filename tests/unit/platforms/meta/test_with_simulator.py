"""Facebook, Instagram and Threads connectors over real sockets against their fakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError, Outcome
from socialpub.platforms.contract import (
    Absent,
    ConnectorAccount,
    Draft,
    DraftMedia,
    MediaFacts,
    OfferedAccount,
    Pending,
    Published,
    Ready,
    Tokens,
    Unknown,
    Upstream,
)
from socialpub.platforms.facebook import connector as facebook
from socialpub.platforms.instagram import connector as instagram
from socialpub.platforms.kit import oauth
from socialpub.platforms.threads import connector as threads
from socialpub.simulator.server import SimulatorThread
from tests.support.file_server import serve_folder
from tests.support.fixed_clock import FixedClock
from tests.support.platforms import live_connector, publish_faults
from tests.support.platforms.live_connector import connect_alice, make_site
from tests.support.platforms.meta_calls import jpeg, mp4

MODULES: dict[str, ModuleType] = {"facebook": facebook, "instagram": instagram, "threads": threads}
PUBLISH = {"facebook": "feed.post", "instagram": "containers.publish", "threads": "containers.publish"}
CALLBACK = "https://pub.example/connect/callback"
DAY = 86_400_000
PIECE = 64 * 1024  # bytes of a video that Facebook wants at once


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A web server with an image and a video, and its folder."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "a.jpg").write_bytes(jpeg())
    (folder / "v.mp4").write_bytes(mp4(filler=PIECE * 5 // 2))
    with serve_folder(folder) as address:
        yield address, folder


@dataclass
class Line(live_connector.LiveConnector):
    """Alice's account at one of the three; `files`: the address of a web server with media, and its folder."""

    files: tuple[str, Path]

    def item(self, kind: str = "image", file: str = "", **more: Any) -> DraftMedia:
        base, folder = self.files
        name = file or ("a.jpg" if kind == "image" else "v.mp4")
        facts = MediaFacts("image/jpeg" if kind == "image" else "video/mp4", 1)
        return DraftMedia(kind, url=f"{base}/{name}", facts=facts, path=folder / name, **more)  # type: ignore[arg-type]

    def draft(self, text: str = "hello", *items: DraftMedia, **options: Any) -> Draft:
        media = items or ((self.item(),) if self.name == "instagram" else ())
        return super().draft(text, *media, **options)


@pytest.fixture(params=list(MODULES))
def line(
    request: pytest.FixtureRequest,
    simulator: SimulatorThread,
    clock: FixedClock,
    client: outbound.HttpClient,
    files: tuple[str, Path],
) -> Line:
    if request.param == "facebook":
        simulator.lab.fake("facebook").videos.piece = PIECE  # type: ignore[attr-defined]
    return Line(request.param, simulator, clock, connect_alice(request.param, simulator, client), files)


# --- Publishing ------------------------------------------------------------------------------------------------------


def test_every_kind_of_content_becomes_public_once_and_is_found_again(line: Line) -> None:
    picture, film = line.item(alt_text="a cat"), line.item("video")
    several = (picture, picture) if line.name == "facebook" else (picture, film)
    contents = [line.draft("picture", picture), line.draft("film", film), line.draft("several", *several)]
    for content in [*contents, *([] if line.name == "instagram" else [line.draft("words")])]:
        plan, since = line.prepared(content), line.clock.now_ms()
        post = line.send(plan)
        assert line.settle(plan, since) == post
        assert post.url
        line.clock.ms += 1000
    words = [("post", "words", 0)] if line.name != "instagram" else []
    assert line.posted() == [("post", "picture", 1), ("post", "film", 1), ("post", "several", 2), *words]
    remote = [entry.remote_id for entry in line.simulator.lab.ledger.entries(line.name)]
    assert len(set(remote)) == len(remote)


@pytest.mark.parametrize("line", ["instagram"], indirect=True)
def test_the_options_of_instagram_reach_the_post(line: Line) -> None:
    tag = {"username": "ann", "x": 0.5, "y": 0.5}
    people = {"collaborators": ["ann"], "userTags": [tag], "locationId": "110", "isAiGenerated": True}
    contents = [
        line.draft("picture", line.item(), **people),
        line.draft("film", line.item("video"), thumbOffset=1500, shareToFeed=False),
        line.draft("", line.item(), story=True, isAiGenerated=True),
        line.draft("", line.item("video"), story=True),
    ]
    for content in contents:
        plan, since = line.prepared(content), line.clock.now_ms()
        assert isinstance(line.settle(plan, since), Absent)
        post = line.send(plan)
        assert line.settle(plan, since) == post
        line.clock.ms += 1000
    picture, film, *stories = [entry.request for entry in line.simulator.lab.ledger.posts("instagram")]
    assert picture.items() >= {"location_id": "110", "collaborators": '["ann"]', "is_ai_generated": "true"}.items()
    assert json.loads(picture["user_tags"]) == [tag]
    assert film.items() >= {"media_type": "REELS", "thumb_offset": "1500", "share_to_feed": "false"}.items()
    labels = [(story["media_type"], story.get("is_ai_generated")) for story in stories]
    assert labels == [("STORIES", "true"), ("STORIES", None)]
    assert "/stories/" in str(post.url)


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
def test_a_backdated_post_reaches_the_page_and_is_never_called_absent(line: Line) -> None:
    plan, since = line.prepared(line.draft("old", backdatedTime="2019-05-04T15:30:00Z")), line.clock.now_ms()
    assert isinstance(line.settle(plan, since), Unknown)
    line.send(plan)
    assert isinstance(line.settle(plan, since), Unknown)
    (entry,) = line.simulator.lab.ledger.posts("facebook")
    assert entry.request.items() >= {"backdated_time": "1556983800", "message": "old"}.items()
    with pytest.raises(ApiError) as caught:
        line.send(line.prepared(line.draft("new", backdatedTime="9999-05-04T15:30:00Z")))
    assert (caught.value.code, caught.value.outcome) == ("platform_rejected", Outcome.REJECTED)


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
def test_a_story_of_a_page_is_published_once_and_found_again(line: Line) -> None:
    plan, since = line.prepared(line.draft("", line.item(alt_text="a cat"), story=True)), line.clock.now_ms()
    assert isinstance(line.settle(plan, since), Absent)
    post = line.send(plan)
    assert line.settle(plan, since) == post
    assert "/stories/" in str(post.url)
    with pytest.raises(ApiError) as caught:
        line.send(plan)
    assert caught.value.rule == "facebook.media.already_posted"
    (entry,) = line.simulator.lab.ledger.posts("facebook")
    assert (entry.remote_id, entry.media[0].alt) == (post.remote_id, "a cat")
    assert entry.request == {"photo_id": plan["photo"], "surface": "story"}


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
def test_a_video_story_is_public_once_processed_and_found_again(line: Line) -> None:
    line.simulator.lab.configure(processingMs=60_000)
    draft = line.draft("", line.item("video"), story=True)
    plan, since = line.prepared(draft), line.clock.now_ms()
    assert isinstance(line.settle(plan, since), Absent)
    taken = facebook.send(line.up, plan)
    assert isinstance(taken, Pending)
    assert isinstance(line.settle(plan, since), Unknown)
    assert line.posted() == []
    line.clock.ms += 60_000
    post = line.settle(plan, since)
    ready = facebook.prepare(line.up, draft, taken.saved)
    assert isinstance(ready, Ready)
    assert facebook.send(line.up, ready.plan) == post
    with pytest.raises(ApiError):
        facebook.send(line.up, plan)
    (entry,) = line.simulator.lab.ledger.posts("facebook")
    assert isinstance(post, Published)
    assert (entry.remote_id, entry.url, entry.media[0].type) == (post.remote_id, post.url, "video/mp4")
    assert entry.request == {"video_id": plan["video"], "surface": "story"}


FAULTS = [*publish_faults.FAULTS, ("status:401", Outcome.REJECTED, False)]


@pytest.mark.matrix
@pytest.mark.parametrize("line", ["facebook"], indirect=True)
@pytest.mark.parametrize(("fault", "outcome", "effect"), FAULTS)
def test_whatever_happens_to_a_story_looking_tells(line: Line, fault: str, outcome: Outcome, effect: bool) -> None:
    line.is_told(line.draft("", line.item(), story=True), "photo_stories", fault, outcome, effect)


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
@pytest.mark.parametrize(("fault", "outcome", "effect"), FAULTS)
def test_whatever_happens_to_the_last_step_of_a_video_story_looking_tells(
    line: Line, fault: str, outcome: Outcome, effect: bool
) -> None:
    line.simulator.lab.configure(processingMs=0)
    line.is_told(line.draft("", line.item("video"), story=True), "video_stories", fault, outcome, effect)


@pytest.mark.matrix
@pytest.mark.parametrize(("fault", "outcome", "effect"), FAULTS)
def test_whatever_happens_to_the_public_call_looking_tells(
    line: Line, fault: str, outcome: Outcome, effect: bool
) -> None:
    line.is_told(line.draft(), PUBLISH[line.name], fault, outcome, effect)


@pytest.mark.matrix
@pytest.mark.parametrize(("fault", "outcome", "effect"), FAULTS)
def test_whatever_happens_to_the_last_step_of_a_video_looking_tells(
    line: Line, fault: str, outcome: Outcome, effect: bool
) -> None:
    operation = "videos" if line.name == "facebook" else PUBLISH[line.name]
    line.simulator.lab.configure(processingMs=0)
    line.is_told(line.draft("film", line.item("video")), operation, fault, outcome, effect)


@pytest.mark.matrix
@pytest.mark.parametrize("fault", ["status:500", "html", "reset_before", "truncated", "wrong_type"])
def test_a_look_that_fails_is_no_absence(line: Line, fault: str) -> None:
    plan, since = line.prepared(line.draft()), line.clock.now_ms()
    line.send(plan)
    line.simulator.lab.faults.add([{"fault": fault, "operation": "*"}])
    assert isinstance(line.settle(plan, since), Unknown)


def test_a_list_that_lags_hides_a_post_for_a_while(line: Line) -> None:
    plan, since = line.prepared(line.draft()), line.clock.now_ms()
    post = line.send(plan)
    line.simulator.lab.configure(listLagMs=30_000)
    hidden = line.settle(plan, since)
    # A container's own status does not lag; only the address of its post is not known yet.
    assert (
        isinstance(hidden, Absent) if line.name == "facebook" else hidden == Published(f"container:{plan['container']}")
    )
    line.clock.ms += 31_000
    assert line.settle(plan, since) == post


def test_small_pages_are_all_read(line: Line) -> None:
    line.simulator.lab.configure(listLimit=1)
    plan, since = line.prepared(line.draft("first")), line.clock.now_ms()
    post = line.send(plan)
    for text in ("second", "third"):
        line.clock.ms += 1000
        line.send(line.prepared(line.draft(text)))
    assert line.settle(plan, since) == post


# --- Connecting ------------------------------------------------------------------------------------------------------


def signed_in(
    name: str, simulator: SimulatorThread, client: outbound.HttpClient, clock: FixedClock, chosen: Any = None
) -> tuple[OfferedAccount, ...]:
    """The whole dance, as the browser and the server do it. `chosen`: settings that differ from the lab's."""
    platform, site = MODULES[name].PLATFORM, chosen or make_site(name, simulator)
    consent = httpx.get(oauth.build_authorize_url(platform, site, CALLBACK, "state-1", ""), trust_env=False)
    back = urlsplit(consent.headers["location"])
    query = parse_qs(back.query)
    assert (consent.status_code, query["state"]) == (302, ["state-1"])
    tokens = oauth.exchange(platform, client, site, query["code"][0], CALLBACK, "", clock.now_ms())
    with pytest.raises(ApiError) as spent:
        oauth.exchange(platform, client, site, query["code"][0], CALLBACK, "", clock.now_ms())
    assert spent.value.code == "platform_auth_failed"
    found: tuple[OfferedAccount, ...] = MODULES[name].identify(
        Upstream(client, client, site, ConnectorAccount(""), tokens), clock.now_ms()
    )
    return found


def test_a_login_leads_to_an_account_that_publishes(line: Line, client: outbound.HttpClient) -> None:
    (one,) = signed_in(line.name, line.simulator, client, line.clock)
    assert one.identity.platform_account_id == line.up.account.platform_account_id
    assert (one.tokens.expires_at_ms is None) == (line.name == "facebook")
    account = ConnectorAccount(one.identity.platform_account_id, one.identity.display_name, one.identity.extra)
    line.up = replace(line.up, account=account, tokens=one.tokens)
    line.send(line.prepared(line.draft()))
    assert [entry[1] for entry in line.posted()] == ["hello"]


def test_a_token_is_renewed_and_the_new_one_works(line: Line) -> None:
    line.clock.ms += 2 * DAY
    fresh = line.module.refresh(line.up, line.clock.now_ms())
    assert fresh.refresh
    line.up = replace(line.up, tokens=fresh)
    line.send(line.prepared(line.draft()))


def test_token_too_young_to_renew_is_not_treated_as_dead(line: Line) -> None:
    if line.name == "facebook":
        assert line.module.refresh(line.up, line.clock.now_ms()).access == line.up.tokens.access
        return
    with pytest.raises(ApiError) as caught:
        line.module.refresh(line.up, line.clock.now_ms())
    assert caught.value.code == "platform_unavailable"


def test_a_permission_that_was_taken_back_ends_everything(line: Line) -> None:
    line.simulator.lab.end_tokens(line.name, "alice", access=True, refresh=True)
    for step in (lambda: line.prepared(line.draft("hello", line.item())), lambda: line.module.refresh(line.up, 0)):
        with pytest.raises(ApiError) as caught:
            step()
        assert (caught.value.code, caught.value.outcome) == ("platform_auth_failed", Outcome.REJECTED)


def test_a_declined_permission_is_noticed(line: Line, client: outbound.HttpClient) -> None:
    server = line.fake.pages.server if line.name == "facebook" else line.fake.people.tokens.server
    server.consent.without = frozenset({line.module.PLATFORM.oauth.required[-1]})
    with pytest.raises(ApiError) as caught:
        signed_in(line.name, line.simulator, client, line.clock)
    assert caught.value.code == "platform_auth_failed"


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
@pytest.mark.parametrize("portfolio", ["owned", "client"])
def test_the_pages_of_a_business_portfolio_are_offered_and_publish(
    line: Line, client: outbound.HttpClient, portfolio: str
) -> None:
    made = line.simulator.lab.add_account("facebook", handle="eve", pages=2, portfolio=portfolio)
    first, second = signed_in("facebook", line.simulator, client, line.clock)
    assert (first.identity.platform_account_id, second.identity.display_name) == (made["platformAccountId"], "eve 2")
    line.up = replace(line.up, account=ConnectorAccount(second.identity.platform_account_id), tokens=second.tokens)
    line.send(line.prepared(line.draft()))
    line.clock.ms += DAY
    line.up = replace(line.up, tokens=facebook.refresh(line.up, line.clock.now_ms()))
    line.send(line.prepared(line.draft("again")))
    assert [entry[1] for entry in line.posted()] == ["hello", "again"]


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
def test_missing_portfolio_permission_is_named_to_the_owner(line: Line, client: outbound.HttpClient) -> None:
    line.simulator.lab.add_account("facebook", handle="eve", portfolio="owned")
    line.fake.pages.server.consent.without = frozenset({"business_management"})
    with pytest.raises(ApiError, match="business_management was not granted") as caught:
        signed_in("facebook", line.simulator, client, line.clock)
    assert caught.value.rule == "facebook.pages.none"
    (alice,) = [user.id for user in line.fake.pages.users.values() if user.username == "alice"]
    line.fake.pages.server.consent.account = alice
    (one,) = signed_in("facebook", line.simulator, client, line.clock)
    assert one.identity.platform_account_id == line.up.account.platform_account_id


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
def test_a_page_of_a_portfolio_that_was_not_assigned_is_named(line: Line, client: outbound.HttpClient) -> None:
    made = line.simulator.lab.add_account("facebook", handle="eve", portfolio="owned")
    pages = line.fake.pages.pages
    pages[made["platformAccountId"]] = replace(pages[made["platformAccountId"]], assigned=False)
    with pytest.raises(ApiError, match="A business portfolio has eve, but gives this person no access to it"):
        signed_in("facebook", line.simulator, client, line.clock)


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
def test_a_login_by_a_configuration_asks_for_no_scopes(line: Line, client: outbound.HttpClient) -> None:
    line.fake.pages.configurations["77"] = facebook.PLATFORM.oauth.scopes  # type: ignore[union-attr]
    site = make_site("facebook", line.simulator).model_copy(update={"config_id": "77"})
    (one,) = signed_in("facebook", line.simulator, client, line.clock, site)
    assert one.identity.platform_account_id == line.up.account.platform_account_id
    line.fake.pages.configurations["77"] = ("pages_show_list",)
    with pytest.raises(ApiError, match="did not grant pages_read_engagement, pages_manage_posts"):
        signed_in("facebook", line.simulator, client, line.clock, site)


# --- What only one of them does --------------------------------------------------------------------------------------


containers = pytest.mark.parametrize("line", ["instagram", "threads"], indirect=True)


@containers
def test_container_not_yet_there_is_published_by_the_next_call(line: Line) -> None:
    plan = line.prepared(line.draft())
    line.fake.made.early = 1
    with pytest.raises(ApiError) as caught:
        line.send(plan)
    assert caught.value.outcome is Outcome.AMBIGUOUS
    assert isinstance(line.settle(plan, line.clock.now_ms()), Absent)
    assert line.send(plan).url
    assert len(line.posted()) == 1


@containers
def test_a_container_is_published_only_once(line: Line) -> None:
    plan = line.prepared(line.draft())
    line.send(plan)
    with pytest.raises(ApiError):
        line.send(plan)
    assert len(line.posted()) == 1


@containers
def test_a_day_later_the_container_is_gone(line: Line) -> None:
    plan, since = line.prepared(line.draft()), line.clock.now_ms()
    line.clock.ms += DAY
    assert line.settle(plan, since) == Unknown(
        {"status": 200, "body": {"id": plan["container"], **_state(line, "EXPIRED")}}, final=True
    )


def _state(line: Line, status: str) -> dict[str, str]:
    if line.name == "threads":
        return {"status": status}
    return {"status_code": status, "status": "Expired: Media was not published within 24 hours."}


@containers
@pytest.mark.parametrize("fault", ["status:500", "expired"])
def test_a_post_without_text_is_not_confused_with_another(line: Line, fault: str) -> None:
    story = {"story": True} if line.name == "instagram" else {}
    plan, other = (line.prepared(line.draft("", line.item(), **story)) for _ in range(2))
    line.clock.ms += DAY // 2
    if fault == "expired":
        other = line.prepared(line.draft("", line.item(), **story))
        line.clock.ms += DAY // 2
    else:
        line.simulator.lab.faults.add([{"fault": fault, "operation": "node", "nth": 2}])
    since = line.clock.now_ms()
    line.send(other)
    assert isinstance(line.settle(plan, since), Unknown)


@containers
def test_a_used_up_quota_stops_the_post(line: Line) -> None:
    line.fake.made.quota = 1
    plan = line.prepared(line.draft("second"))
    line.send(line.prepared(line.draft("first")))
    for step in (lambda: line.prepared(line.draft("third")), lambda: line.send(plan)):
        with pytest.raises(ApiError) as caught:
            step()
        assert caught.value.rule == f"{line.name}.account.daily_cap"


@containers
def test_media_that_cannot_be_fetched_is_told(line: Line) -> None:
    for kind in ("image", "video"):
        with pytest.raises(ApiError) as caught:
            line.prepared(line.draft("hello", line.item(kind, "missing.jpg")))
        assert (caught.value.code, caught.value.rule) == ("platform_rejected", f"{line.name}.media.reachable")


@pytest.mark.parametrize("line", ["threads"], indirect=True)
def test_a_reply_is_a_comment_in_the_thread(line: Line) -> None:
    post = line.send(line.prepared(line.draft("first")))
    plan, since = line.prepared(line.draft("second", replyToId=post.remote_id)), line.clock.now_ms()
    answered = line.send(plan)
    assert line.settle(plan, since) == answered
    assert line.posted() == [("post", "first", 0), ("comment", "second", 0)]


@pytest.mark.parametrize("line", ["threads"], indirect=True)
def test_a_reply_needs_no_permission_to_read_the_quota_of_replies(line: Line) -> None:
    """Threads asks for `threads_manage_replies` to show that quota, which an account may decline."""
    post = line.send(line.prepared(line.draft("first")))
    issue = line.fake.people.tokens.server.issue(
        line.up.account.platform_account_id, ("threads_basic", "threads_content_publish"), DAY // 1000
    )
    line.up = replace(line.up, tokens=Tokens(issue.access))
    line.fake.made.quota = 1  # of posts, used up
    line.send(line.prepared(line.draft("second", replyToId=post.remote_id)))
    assert line.posted() == [("post", "first", 0), ("comment", "second", 0)]


@pytest.mark.parametrize("line", ["threads"], indirect=True)
def test_the_options_of_threads_reach_the_post(line: Line) -> None:
    first = line.send(line.prepared(line.draft("first")))
    options = {"topicTag": "Cats", "replyControl": "followers_only", "quotePostId": first.remote_id}
    plan = line.prepared(line.draft("words", linkAttachment="https://a.example/", **options))
    since = line.clock.now_ms()
    post = line.send(plan)
    assert line.settle(plan, since) == post
    _, entry = line.simulator.lab.ledger.posts("threads")
    form = {"topic_tag": "Cats", "reply_control": "followers_only", "quote_post_id": first.remote_id}
    assert entry.request.items() >= (form | {"link_attachment": "https://a.example/"}).items()


@pytest.mark.parametrize("line", ["threads"], indirect=True)
@pytest.mark.parametrize(
    "options",
    [
        {"topicTag": "a.b"},
        {"topicTag": "a" * 51},
        {"quotePostId": "1"},
        {"linkAttachment": "https://a.example/", "picture": True},
    ],
)
def test_what_threads_refuses_of_the_options_is_a_refusal(line: Line, options: dict[str, Any]) -> None:
    items = (line.item(),) if options.pop("picture", False) else ()
    with pytest.raises(ApiError) as caught:
        line.prepared(line.draft("words", *items, **options))
    assert (caught.value.code, caught.value.outcome) == ("platform_rejected", Outcome.REJECTED)


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
def test_the_same_words_twice_are_a_duplicate_to_facebook(line: Line) -> None:
    line.send(line.prepared(line.draft()))
    with pytest.raises(ApiError) as caught:
        line.send(line.prepared(line.draft()))
    assert caught.value.rule == "facebook.post.duplicate"


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
def test_a_video_that_cannot_be_processed_is_told_and_not_public(line: Line) -> None:
    line.simulator.lab.configure(processingMs=5000)
    line.fake.videos.failing.append("too odd")
    with pytest.raises(ApiError, match="too odd") as caught:
        line.send(line.prepared(line.draft("film", line.item("video"))))
    assert (caught.value.rule, line.posted()) == ("facebook.media.invalid", [])


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
def test_a_video_whose_last_answer_was_lost_is_open_until_it_is_processed(line: Line) -> None:
    line.simulator.lab.configure(processingMs=90_000)
    plan, since = line.prepared(line.draft("film", line.item("video"))), line.clock.now_ms()
    line.simulator.lab.faults.add([{"fault": "reset_after", "operation": "videos", "times": 1}])
    with pytest.raises(ApiError):
        line.send(plan)
    line.clock.ms += 60_000
    assert isinstance(line.settle(plan, since), Unknown)
    assert line.posted() == []
    line.clock.ms += 60_000
    assert isinstance(line.settle(plan, since), Published)
    assert line.posted() == [("post", "film", 1)]


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
@pytest.mark.parametrize("fault", [None, "reset_before", "reset_after", "status:500"])
def test_without_phases_a_video_is_uploaded_whole_and_then_named(line: Line, fault: str | None) -> None:
    line.fake.videos.phases = False
    if fault:
        line.simulator.lab.faults.add([{"fault": fault, "operation": "upload.bytes", "times": 1}])
    plan, since = line.prepared(line.draft("film", line.item("video"))), line.clock.now_ms()
    assert (plan["kind"], line.posted()) == ("handle", [])
    post = line.send(plan)
    assert post.url
    (entry,) = line.simulator.lab.ledger.entries("facebook")
    assert (entry.remote_id, entry.media[0].size) == (post.remote_id, (line.files[1] / "v.mp4").stat().st_size)
    found = line.settle(plan, since)
    assert isinstance(found, Published)
    assert found.url == post.url


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
def test_a_video_goes_up_in_pieces_and_goes_on_after_a_lost_answer(line: Line) -> None:
    line.simulator.lab.faults.add([{"fault": "reset_after", "operation": "videos", "nth": 3}])
    line.send(line.prepared(line.draft("film", line.item("video"))))
    (entry,) = line.simulator.lab.ledger.entries("facebook")
    assert entry.media[0].size == (line.files[1] / "v.mp4").stat().st_size


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
def test_disconnecting_ends_the_tokens_of_every_page(line: Line, client: outbound.HttpClient) -> None:
    (one,) = signed_in("facebook", line.simulator, client, line.clock)
    line.up = replace(line.up, tokens=one.tokens)
    facebook.revoke(line.up)
    facebook.revoke(line.up)
    with pytest.raises(ApiError) as caught:
        line.send(line.prepared(line.draft()))
    assert caught.value.code == "platform_auth_failed"


@pytest.mark.parametrize("line", ["facebook"], indirect=True)
def test_a_logins_own_token_does_not_publish(line: Line) -> None:
    line.up = replace(line.up, tokens=Tokens(str(line.up.tokens.refresh)))
    with pytest.raises(ApiError) as caught:
        line.send(line.prepared(line.draft()))
    assert (caught.value.code, line.posted()) == ("platform_auth_failed", [])
