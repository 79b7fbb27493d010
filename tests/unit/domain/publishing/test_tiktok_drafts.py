"""TikTok photo drafts: one keyless call, then status lookups only, across crashes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts
from socialpub.domain.publishing import run as publish
from socialpub.domain.publishing.intents import LostClaimError
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import Intent
from tests.support.app_server import AppServer, Person, format_instant
from tests.support.platforms.meta_calls import jpeg, mp4
from tests.support.soak.soak_world import wait_for

UNKNOWN = "publish.outcome_unknown"


@pytest.fixture
def server(make_server: Callable[..., AppServer], lab: SimulatorThread) -> AppServer:
    app = {"enabled": True, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    return make_server(
        platforms={"tiktok": {"api_base": lab.origin("tiktok"), **app}},
        publishing={"settle_horizon": 2, "retry_waits": [0.2, 0.4]},
    )


@pytest.fixture
def ann(server: AppServer) -> Person:
    ann = server.person("Ann")
    server.connect_simulated(ann, "tiktok")
    return ann


def schedule(server: AppServer, ann: Person, kind: str = "image") -> str:
    content = jpeg() if kind == "image" else mp4()
    file = ann.api.post("/v1/media", files={"file": ("a", content)}).json()["id"]
    body = {"targets": [{"accountId": ann.accounts["tiktok"]["id"]}], "text": "look"}
    at = format_instant(server.clock.now_ms() + 60_000)
    answer = ann.api.publish(body | {"media": [{"kind": kind, "mediaId": file}], "scheduledAt": at})
    server.skip(60)
    return str(answer.json()["results"][0]["postId"])


def dies_at(patched: pytest.MonkeyPatch, point: str) -> list[str]:
    """The process ends at a point, as far as the rows can tell; where it has."""
    died: list[str] = []

    def hit(intent: Any, passing: str) -> None:
        if passing == point and not died:
            died.append(passing)
            raise LostClaimError(intent["post"])

    patched.setattr(publish, "_hit_fault", hit)
    return died


def saved(server: AppServer, post: str) -> dict[str, Any]:
    """What is kept of preparing."""
    return dict(json.loads(server.rows(id=post)[0]["saved"] or "{}"))


def drafts(server: AppServer) -> int:
    return len(server.lab.lab.ledger.entries("tiktok"))


def opened(server: AppServer) -> int:
    """How often a draft was asked for."""
    return [call.operation for call in server.lab.lab.calls].count("content.init")


def intents(server: AppServer, post: str) -> list[tuple[str, str]]:
    return [(row["step"], row["outcome"]) for row in server.rows(Intent, post=post)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "sent", "ended", "settled"),
    [
        ("after_intent", 0, "failed", ["unknown"]),
        ("after_reply", 1, "failed", ["unknown"]),
        ("before_result", 1, "failed", ["unknown"]),
        ("after_result", 1, "published", ["taken", "ok"]),
    ],
)
def test_a_draft_is_never_asked_for_twice_whenever_the_process_dies(
    server: AppServer,
    ann: Person,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    sent: int,
    ended: str,
    settled: list[str],
) -> None:
    with monkeypatch.context() as patched:
        died = dies_at(patched, point)
        post = schedule(server, ann)
        assert wait_for(lambda: died, 60)
        server.stop()
    server.start()
    row = server.wait(post, "published", "failed", "rejected", seconds=20)
    assert (row["status"], opened(server), drafts(server)) == (ended, sent, sent)
    assert intents(server, post) == [("publish", outcome) for outcome in settled]
    error = json.loads(row["error"] or "{}")
    assert error.get("rule") == (UNKNOWN if ended == "failed" else None)
    assert ended == "published" or error["remediation"].startswith("Check the creator's TikTok inbox. If the post")


def test_named_draft_is_looked_up_after_a_long_downtime_not_overdue(
    server: AppServer, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        died = dies_at(patched, "after_result")
        post = schedule(server, ann)
        assert wait_for(lambda: died, 60)
    server.away(3 * 3600)
    assert server.wait(post, "published", "failed", seconds=20)["status"] == "published"
    assert (opened(server), drafts(server)) == (1, 1)


@pytest.mark.slow
def test_video_at_tiktok_before_a_long_downtime_is_not_overdue(server: AppServer, ann: Person) -> None:
    server.lab.lab.configure(processingMs=60_000)
    post = schedule(server, ann, "video")
    assert wait_for(lambda: saved(server, post).get("sent"), 60)
    server.stop()
    server.lab.lab.configure(processingMs=0)
    server.away(3 * 3600)
    assert server.wait(post, "published", "failed", seconds=20)["status"] == "published"
    assert drafts(server) == 1


def test_draft_with_unpulled_photos_is_sent_once_more(server: AppServer, ann: Person) -> None:
    fake: Any = server.lab.lab.fake("tiktok")
    fake.fails = "photo_pull_failed"
    server.lab.lab.configure(processingMs=0)
    post = schedule(server, ann)
    assert wait_for(lambda: ("publish", "taken") in intents(server, post), 60)
    fake.fails = ""
    assert wait_for(lambda: server.rows(id=post)[0]["status"] == "published" or server.skip(6), 60, 0.3)
    assert intents(server, post) == [("publish", "taken"), ("publish", "taken"), ("publish", "ok")]
    assert (opened(server), drafts(server)) == (2, 1)


@pytest.mark.slow
def test_a_lost_answer_leaves_it_to_a_person_who_may_have_it_sent_again(server: AppServer, ann: Person) -> None:
    server.lab.lab.faults.add([{"fault": "reset_before", "platform": "tiktok", "operation": "content.init", "nth": 1}])
    post = schedule(server, ann)
    assert server.wait(post, "failed", seconds=20)["error_code"] == "platform_unavailable"
    assert intents(server, post) == [("publish", "unknown")]
    assert ann.api.post(f"/v1/posts/{post}/retry", json={}).status_code == 409
    assert ann.api.post(f"/v1/posts/{post}/settle", json={"published": False}).status_code == 200
    assert ann.api.post(f"/v1/posts/{post}/retry", json={}).status_code == 202
    assert server.wait(post, "published", seconds=20)["attempts"] == 2
    assert (opened(server), drafts(server)) == (2, 1)


# --- A draft that is there, and a TikTok that does not say so ------------------------------------------------------


def refuses_its_status(server: AppServer, how: str) -> None:
    server.lab.lab.faults.add([{"fault": how, "platform": "tiktok", "operation": "status.fetch"}])


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["image", "video"])
@pytest.mark.parametrize("how", ["status:401", "status:403", "status:429", "status:500", "html"])
def test_a_draft_whose_status_is_refused_is_unknown_and_never_made_twice(
    server: AppServer, ann: Person, kind: str, how: str
) -> None:
    server.lab.lab.configure(processingMs=0)
    refuses_its_status(server, how)
    post = schedule(server, ann, kind)
    assert wait_for(lambda: server.rows(id=post)[0]["status"] in ("failed", "rejected") or server.skip(40), 30, 0.2)
    row = server.rows(id=post)[0]
    error = json.loads(row["error"])
    assert (row["status"], error["rule"], drafts(server)) == ("failed", UNKNOWN, 1)
    assert error["remediation"].startswith("Check the creator's TikTok inbox. If the post")
    assert ann.api.post(f"/v1/posts/{post}/retry", json={}).status_code == 409
    assert ann.api.post(f"/v1/posts/{post}/settle", json={"published": True}).status_code == 200
    assert server.rows(id=post)[0]["status"] == "published"
    assert drafts(server) == 1


@pytest.mark.slow
def test_a_draft_that_stays_in_processing_for_ever_is_unknown(server: AppServer, ann: Person) -> None:
    server.lab.lab.configure(processingMs=24 * 3600_000)
    post = schedule(server, ann)
    assert wait_for(lambda: server.rows(id=post)[0]["status"] == "failed" or server.skip(2000), 30, 0.1)
    assert json.loads(server.rows(id=post)[0]["error"])["rule"] == UNKNOWN


def test_a_draft_that_came_to_nothing_is_known_to(server: AppServer, ann: Person) -> None:
    fake: Any = server.lab.lab.fake("tiktok")
    fake.fails = "file_format_check_failed"
    server.lab.lab.configure(processingMs=0)
    post = schedule(server, ann)
    assert wait_for(lambda: server.rows(id=post)[0]["status"] == "rejected" or server.skip(6), 60, 0.2)
    assert json.loads(server.rows(id=post)[0]["error"])["rule"] == "tiktok.file_format.invalid"


def test_disconnecting_does_not_call_canceled_what_goes_on_without_us(server: AppServer, ann: Person) -> None:
    server.lab.lab.configure(processingMs=0)
    server.service.runtime.settings.publishing.retry_waits[:] = [3600.0]
    refuses_its_status(server, "status:500")
    post = schedule(server, ann, "video")
    assert wait_for(lambda: server.rows(id=post)[0]["status"] == "validated" or server.skip(10), 30, 0.2)
    scope, account = Scope(ann.organization), ann.accounts["tiktok"]["id"]
    server.service.write(lambda tx: accounts.disconnect(server.service, tx, scope, account, "req_1")).result()
    assert server.rows(id=post)[0]["status"] == "validated"
    server.skip(3601)
    error = json.loads(server.wait(post, "failed", seconds=20)["error"])
    assert (error["rule"], drafts(server)) == (UNKNOWN, 1)
