"""Duplicate refusals by a platform: lookup of the existing post and its owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from socialpub.platforms.contract import Json, Published, Upstream
from socialpub.platforms.twitter import connector as twitter
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import Intent
from tests.support.app_server import AppServer, Person

NAMES = ("facebook", "linkedin", "twitter")
SEND = {"facebook": "feed.post", "linkedin": "posts.create", "twitter": "tweets.create"}
LOOK = {"facebook": "published_posts", "linkedin": "posts.list", "twitter": "users.tweets"}
UNKNOWN = "publish.outcome_unknown"
HIDDEN_MS = 3_600_000


@pytest.fixture
def server(open_shared: Callable[..., AppServer], shared_lab: SimulatorThread) -> AppServer:
    app = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    sites = {name: {"api_base": shared_lab.origin(name), **app} for name in ("linkedin", "twitter")}
    sites["facebook"] = {"api_base": shared_lab.origin("facebook")}
    return open_shared(platforms=sites, publishing={"settle_horizon": 1})


@pytest.fixture
def ann(server: AppServer) -> Person:
    """Somebody with an account on each; on LinkedIn a page, and as `member` her own."""
    ann = server.person("Ann")
    for name, platform, more in (
        *((name, name, {}) for name in ("facebook", "twitter")),
        ("linkedin", "linkedin", {"kind": "organization"}),
        ("member", "linkedin", {"kind": "person"}),
    ):
        server.connect_simulated(ann, platform, name, **more)
    return ann


def publish(ann: Person, name: str, text: str = "hello", times: int = 1) -> list[dict[str, Any]]:
    target = {"accountId": ann.accounts[name]["id"]}
    return list(ann.api.publish({"text": text, "targets": [target] * times}).json()["results"])


def lose(server: AppServer, name: str, fault: str = "reset_after", *nths: int) -> None:
    operation = SEND["linkedin" if name == "member" else name]
    lines = [{"fault": fault, "operation": operation, "nth": nth} for nth in nths or (1,)]
    server.lab.lab.faults.add(lines)


def again(server: AppServer, ann: Person, post: str) -> dict[str, Any]:
    """What becomes of a post that its owner did not find, once it is sent again."""
    assert ann.api.post(f"/v1/posts/{post}/settle", json={"published": False}).status_code == 200
    assert ann.api.post(f"/v1/posts/{post}/retry", json={}).status_code == 202
    server.wait(post, "published", "failed", "rejected", seconds=20)
    return dict(ann.api.get(f"/v1/posts/{post}").json())


def entries(server: AppServer, name: str) -> list[Any]:
    return server.lab.lab.ledger.entries("linkedin" if name == "member" else name)


@pytest.mark.matrix
@pytest.mark.parametrize("name", NAMES)
def test_a_duplicate_of_what_an_earlier_attempt_made_is_that_post(server: AppServer, ann: Person, name: str) -> None:
    lose(server, name)
    server.lab.lab.configure(listLagMs=HIDDEN_MS)
    (lost,) = publish(ann, name)
    assert (lost["status"], lost["error"]["rule"]) == ("failed", UNKNOWN)
    server.lab.lab.configure(listLagMs=0)
    shown = again(server, ann, lost["postId"])
    (entry,) = entries(server, name)
    assert (shown["status"], shown["url"], len(shown["attempts"])) == ("published", entry.url, 2)
    assert [row["outcome"] for row in server.rows(Intent, post=lost["postId"])] == ["unknown", "ok"]


@pytest.mark.parametrize("name", NAMES)
def test_a_duplicate_of_another_post_is_refused_and_bound_to_nothing(server: AppServer, ann: Person, name: str) -> None:
    first, second = publish(ann, name, times=2)
    assert (first["status"], second["status"]) == ("published", "rejected")
    assert second["error"]["rule"] == f"{name}.post.duplicate"
    assert [row["remote"] for row in server.rows(Intent, post=second["postId"])] == [None]


@pytest.mark.matrix
@pytest.mark.parametrize("name", NAMES)
def test_duplicate_of_another_post_stays_one_after_an_ineffective_send(
    server: AppServer, ann: Person, name: str
) -> None:
    """The earlier send left nothing; what there is belongs to the other post."""
    lose(server, name, "reset_before")
    (lost,) = publish(ann, name)
    assert lost["error"]["rule"] == UNKNOWN
    (other,) = publish(ann, name)
    shown = again(server, ann, lost["postId"])
    assert (other["status"], shown["status"]) == ("published", "rejected")
    assert shown["error"]["rule"] == f"{name}.post.duplicate"
    assert len(entries(server, name)) == 1


@pytest.mark.matrix
@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_looked_for_stays_unknown(server: AppServer, ann: Person, name: str) -> None:
    lose(server, name)
    server.lab.lab.configure(listLagMs=HIDDEN_MS)
    (lost,) = publish(ann, name)
    server.lab.lab.faults.add([{"fault": "status:503", "operation": LOOK[name]}])
    shown = again(server, ann, lost["postId"])
    assert (shown["status"], shown["error"]["rule"]) == ("failed", UNKNOWN)
    assert "An earlier attempt may have published it" in shown["error"]["message"]
    assert len(entries(server, name)) == 1


def test_a_members_duplicate_names_the_post_and_stays_unknown(server: AppServer, ann: Person) -> None:
    lose(server, "member")
    (lost,) = publish(ann, "member")
    shown = again(server, ann, lost["postId"])
    (entry,) = entries(server, "member")
    assert (shown["status"], shown["error"]["rule"]) == ("failed", UNKNOWN)
    assert entry.remote_id in shown["error"]["message"]


def test_a_send_is_told_what_belongs_to_other_posts(
    server: AppServer, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[set[str]] = []
    sending = twitter.send

    def send(up: Upstream, plan: Json) -> Published:
        sent = sending(up, plan)
        told.append({entry.remote_id for entry in entries(server, "twitter") if entry.remote_id in up.bound})
        return sent

    monkeypatch.setattr(twitter, "send", send)
    publish(ann, "twitter", "one")
    publish(ann, "twitter", "two")
    (first, _) = entries(server, "twitter")
    assert told == [set(), {first.remote_id}]


def test_identical_posts_on_x_with_lost_responses_are_not_guessed(server: AppServer, ann: Person) -> None:
    lose(server, "twitter", "reset_before", 1)
    lose(server, "twitter", "reset_after", 2)
    results = publish(ann, "twitter", times=2)
    assert [result["error"]["rule"] for result in results] == [UNKNOWN, UNKNOWN]
    assert len(entries(server, "twitter")) == 1
