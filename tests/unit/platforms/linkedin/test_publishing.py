"""LinkedIn publishing, from an HTTP request to the public post at the simulator."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import AppServer
from tests.support.media_uploads import stored_media
from tests.support.platforms.inline_items import inline_item, publish
from tests.support.platforms.meta_calls import jpeg, mp4

KINDS = ("person", "organization")
ODD = "50% (today) *now* hi @bob, go #launch | C# <b> [x] {y} a_b ~ C:\\temp – “ok”"


@pytest.fixture
def site(shared_lab: SimulatorThread) -> dict[str, Any]:
    return {"api_base": shared_lab.origin("linkedin"), "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}


@pytest.fixture
def server(open_shared: Callable[..., AppServer], site: dict[str, Any]) -> Iterator[AppServer]:
    server = open_shared(platforms={"linkedin": site})
    with server.hurried():
        yield server


@pytest.fixture
def impatient(open_shared: Callable[..., AppServer], site: dict[str, Any]) -> AppServer:
    """Answers after a second, with what is not settled yet."""
    return open_shared(platforms={"linkedin": site}, publishing={"immediate_wait": 1})


def published(server: AppServer, result: dict[str, Any], account: dict[str, Any]) -> Any:
    """The one entry in the ledger, which is what the answer says."""
    assert result["status"] == "published", json.dumps(result)
    (entry,) = server.lab.lab.ledger.entries("linkedin")
    assert (entry.account, entry.remote_id, entry.url) == (account["platformAccountId"], result["uri"], result["url"])
    assert result["url"] == f"https://www.linkedin.com/feed/update/{result['uri']}/"
    assert (result.get("cid"), entry.request["author"]) == (None, account["platformAccountId"])
    return entry


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_shown_as_it_was_written(server: AppServer, kind: str) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "linkedin", kind=kind)
    entry = published(server, publish(ann, account, text=ODD), account)
    assert (entry.text, entry.media, entry.request["visibility"]) == (ODD, (), "PUBLIC")


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_with_an_image_becomes_one_public_post(server: AppServer, kind: str) -> None:
    ann = server.person("Ann")
    account, picture = server.connect_simulated(ann, "linkedin", kind=kind), jpeg()
    result = publish(ann, account, text="hello", media=[inline_item("image", picture, altText="a cat")])
    (medium,) = published(server, result, account).media
    assert (medium.size, medium.type, medium.alt) == (len(picture), "image/jpeg", "a cat")
    assert server.lab.lab.blobs[medium.sha256].content == picture
    assert result.get("warnings", []) == []


@pytest.mark.parametrize("kind", KINDS)
def test_several_images_become_one_public_post_in_their_order(server: AppServer, kind: str) -> None:
    ann = server.person("Ann")
    account, pictures = server.connect_simulated(ann, "linkedin", kind=kind), [jpeg(40 + number) for number in range(3)]
    media = [inline_item("image", picture, altText=f"cat {n}") for n, picture in enumerate(pictures)]
    entry = published(server, publish(ann, account, text="three", media=media), account)
    assert [server.lab.lab.blobs[medium.sha256].content for medium in entry.media] == pictures
    assert [medium.alt for medium in entry.media] == ["cat 0", "cat 1", "cat 2"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_video_in_parts_becomes_one_public_post(server: AppServer, kind: str) -> None:
    ann = server.person("Ann")
    account, film = server.connect_simulated(ann, "linkedin", kind=kind), mp4(filler=5_000_000)
    entry = published(server, publish(ann, account, text="look", media=[inline_item("video", film)]), account)
    (medium,) = entry.media
    assert (medium.size, medium.type) == (len(film), "video/mp4")
    assert server.lab.lab.blobs[medium.sha256].content == film
    sizes = [call.size for call in server.lab.lab.calls if call.operation == "media.upload"]
    assert sizes == [4_194_304, len(film) - 4_194_304]


PDF = b"%PDF-1.7\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF\n"
DOCUMENT: dict[str, Any] = {"text": "menu", "options": {"documentTitle": "Menu"}}


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_document_becomes_one_public_post_with_its_title(server: AppServer, kind: str) -> None:
    ann = server.person("Ann")
    account, stored = server.connect_simulated(ann, "linkedin", kind=kind), stored_media(ann.api, PDF)
    assert (stored["kind"], stored["contentType"], stored["width"]) == ("document", "application/pdf", None)
    entry = published(server, publish(ann, account, media=[stored["id"]], **DOCUMENT), account)
    (medium,) = entry.media
    assert (medium.type, entry.request["content"]["media"]["title"]) == ("application/pdf", "Menu")
    assert server.lab.lab.blobs[medium.sha256].content == PDF
    download = ann.api.get(stored["url"])
    assert (download.content, download.headers["Content-Type"]) == (PDF, "application/pdf")
    assert download.headers["Content-Disposition"].startswith("attachment")


def test_a_document_that_cannot_be_published_is_refused_at_once(server: AppServer) -> None:
    ann = server.connected_person("Ann")
    account, stored = server.connect_simulated(ann, "linkedin", kind="person"), stored_media(ann.api, PDF)["id"]
    cases: list[tuple[dict[str, Any], list[Any], str]] = [
        ({"accountId": ann.bluesky}, [stored], "bluesky.media.document_unsupported"),
        ({"accountId": account["id"]}, [stored], "linkedin.document.title_required"),
        ({"accountId": account["id"]}, [stored, inline_item("image", jpeg())], "linkedin.media.no_mixing"),
        ({"accountId": account["id"]}, [{"kind": "image", "mediaId": stored}], "media.kind_mismatch"),
    ]
    for target, media, rule in cases:
        answer = ann.api.publish({"targets": [target], "text": "menu", "media": media})
        assert answer.status_code == 400
        assert rule in json.dumps(answer.json()), answer.text
    result = publish(ann, account, media=[inline_item("document", jpeg())], **DOCUMENT)
    assert result["error"]["rule"] == "media.kind_mismatch"
    assert [call for call in server.lab.lab.calls if call.platform == "linkedin"] == []


def test_a_member_may_post_for_connections_only(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "linkedin", kind="person")
    options = {"visibility": "CONNECTIONS", "reshareDisabled": True}
    entry = published(server, publish(ann, account, text="hello", options=options), account)
    assert entry.request["visibility"] == "CONNECTIONS"
    assert entry.request["isReshareDisabledByAuthor"] is True


def test_an_account_whose_token_is_over_is_asked_to_reconnect(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "linkedin", kind="person")
    server.lab.lab.end_tokens("linkedin", account["platformAccountId"])
    result = publish(ann, account, text="hello")
    assert (result["status"], result["error"]["rule"]) == ("rejected", "account.reconnect_required")
    assert server.lab.lab.ledger.entries("linkedin") == []


def test_an_app_with_refresh_tokens_renews_on_the_way(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "linkedin", kind="person", vetted=True)
    server.lab.lab.end_tokens("linkedin", account["platformAccountId"])
    published(server, publish(ann, account, text="hello"), account)
    called = [call.operation for call in server.lab.lab.calls]
    assert called == ["posts.create", "oauth.token", "posts.create"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_words_twice_are_a_duplicate(server: AppServer, kind: str) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "linkedin", kind=kind)
    publish(ann, account, text="hello")
    server.skip(60)
    result = publish(ann, account, text="hello")
    assert (result["status"], result["error"]["rule"]) == ("rejected", "linkedin.post.duplicate")
    assert len(server.lab.lab.ledger.entries("linkedin")) == 1


def test_a_retired_version_is_told_to_the_operator(open_shared: Callable[..., AppServer], site: dict[str, Any]) -> None:
    server = open_shared(platforms={"linkedin": site | {"api_version": "202511"}})
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "linkedin", kind="person")
    server.lab.lab.faults.add([{"fault": "status:426", "platform": "linkedin", "operation": "posts.create"}])
    result = publish(ann, account, text="hello")
    assert (result["status"], result["error"]["rule"]) == ("failed", "linkedin.version.retired")
    assert "api_version" in result["error"]["remediation"]
    told = [data for type_, data in server.events() if type_ == "version.deprecated"]
    ended = {"platform": "linkedin", "currentPin": "202511", "nextPin": "202609"}
    assert told == [ended | {"sunsetAt": "2026-11-16T00:00:00.000Z"}]


def test_a_version_that_no_table_has_is_told_when_it_is_refused(
    open_shared: Callable[..., AppServer], site: dict[str, Any]
) -> None:
    server = open_shared(platforms={"linkedin": site | {"api_version": "202610"}})
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "linkedin", kind="person")
    server.lab.lab.faults.add([{"fault": "status:426", "platform": "linkedin", "operation": "posts.create"}])
    for text in ("one", "two"):
        assert publish(ann, account, text=text)["error"]["rule"] == "linkedin.version.retired"
    told = [data for type_, data in server.events() if type_ == "version.deprecated"]
    assert told == [{"platform": "linkedin", "currentPin": "202610", "nextPin": "202609", "sunsetAt": None}]


CONTENTS: list[dict[str, Any]] = [{"text": ODD}, DOCUMENT | {"media": [inline_item("document", PDF)]}]


@pytest.mark.matrix
@pytest.mark.parametrize("content", CONTENTS, ids=["text", "document"])
@pytest.mark.parametrize("fault", ["reset_after", "error_after"])
def test_a_pages_post_whose_answer_was_lost_is_found_and_never_sent_twice(
    impatient: AppServer, fault: str, content: dict[str, Any]
) -> None:
    server, ann = impatient, impatient.person("Ann")
    account = server.connect_simulated(ann, "linkedin", kind="organization")
    server.lab.lab.faults.add([{"fault": fault, "platform": "linkedin", "operation": "posts.create", "times": 1}])
    result = publish(ann, account, **content)
    assert server.lab.lab.ledger.wait(1, 60)
    server.wait(result["postId"], "publishing")
    server.skip(6)
    row = server.wait(result["postId"], "published", seconds=20)
    (entry,) = server.lab.lab.ledger.entries("linkedin")
    assert (row["url"], row["attempts"]) == (entry.url, 1)


@pytest.mark.parametrize("fault", ["reset_after", "error_after"])
def test_member_document_with_a_lost_response_is_sent_once(server: AppServer, fault: str) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "linkedin", kind="person")
    server.lab.lab.faults.add([{"fault": fault, "platform": "linkedin", "operation": "posts.create", "times": 1}])
    result = publish(ann, account, **CONTENTS[1])
    row = server.wait(result["postId"], "failed", seconds=20)
    assert json.loads(row["error"])["rule"] == "publish.outcome_unknown"
    called = [call.operation for call in server.lab.lab.calls if call.platform == "linkedin"]
    assert called == ["documents.initialize", "media.upload", "posts.create"]
    assert len(server.lab.lab.ledger.entries("linkedin")) == 1


@pytest.mark.parametrize("fault", ["reset_after", "error_after"])
def test_member_post_with_a_lost_response_stays_unknown_and_is_sent_once(impatient: AppServer, fault: str) -> None:
    server, ann = impatient, impatient.person("Ann")
    account = server.connect_simulated(ann, "linkedin", kind="person")
    server.lab.lab.faults.add([{"fault": fault, "platform": "linkedin", "operation": "posts.create", "times": 1}])
    result = publish(ann, account, text="hello")
    assert server.lab.lab.ledger.wait(1, 60)
    server.skip(6)
    row = server.wait(result["postId"], "failed", seconds=20)
    assert (row["attempts"], len(server.lab.lab.ledger.entries("linkedin"))) == (1, 1)
    called = [call.operation for call in server.lab.lab.calls if call.platform == "linkedin"]
    assert called == ["posts.create"]
