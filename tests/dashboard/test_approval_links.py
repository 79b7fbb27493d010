"""Approval links: one draft for a person without a login, two buttons, and nothing else."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from socialpub.base.security.crypto import digest
from socialpub.domain.posts import approval_links
from socialpub.store.schema.models import AuditEntry, IdempotencyRecord, PostDraft
from tests.support.app_server import ApiClient, error_of, unchanged
from tests.support.media_uploads import stored_media
from tests.support.parsed_pages import ParsedPage
from tests.support.post_drafts import PATH, approve_draft, change_draft, new_draft, read_draft
from tests.support.request_cast import RequestCast

HTML = {"Accept": "text/html"}
TIME = "2999-05-04T15:30:00.000Z"
CSP = {
    "default-src 'none'",
    "style-src 'self'",
    "img-src 'self'",
    "media-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'self'",
}


def new_link(api: ApiClient, draft: str) -> str:
    """The path of the draft's new link."""
    answer = api.post(f"{PATH}/{draft}/link")
    assert (answer.status_code, set(answer.json())) == (200, {"url", "expiresAt"})
    return urlsplit(answer.json()["url"]).path


def fields_of(page: httpx.Response) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text))


def decide(person: ApiClient, link: str, page: httpx.Response | None = None, **fields: str) -> httpx.Response:
    """Send the form of a page that was opened before, or now."""
    return person.post(link, data=fields_of(page or person.get(link)) | fields)


@pytest.fixture
def draft(world: RequestCast) -> str:
    picture = stored_media(world.alice.api)["id"]
    item = {"kind": "image", "mediaId": picture, "altText": "A door with new hours"}
    body = world.body(
        text="Open on Monday",
        media=[item, {"kind": "image", "url": "https://example.org/door.jpg"}],
        targets=[world.target(options={"platform": "bluesky", "langs": ["en"]})],
        scheduledAt=TIME,
    )
    return str(new_draft(world.alice.api, title="Secret plan", **body)["id"])


@pytest.fixture
def client(world: RequestCast) -> ApiClient:
    """The browser of a person without a login."""
    return world.server.api()


@pytest.mark.slow
def test_the_page_shows_the_draft_as_it_will_be_sent_and_nothing_else(
    world: RequestCast, draft: str, client: ApiClient
) -> None:
    world.alice.api.post(f"{PATH}/{draft}/return", json={"note": "between ourselves"})
    new_draft(world.alice.api, text="another draft")
    page = client.get(new_link(world.alice.api, draft))
    assert page.status_code == 200
    assert set(page.headers["Content-Security-Policy"].split("; ")) == CSP
    assert (page.headers["Referrer-Policy"], page.headers["Cache-Control"]) == ("no-referrer", "no-store")
    for shown in (
        "Open on Monday",
        "A door with new hours",
        "https://example.org/door.jpg",
        "Alice",
        "en",
        "4 May 2999",
    ):
        assert shown in page.text
    for hidden in ("Secret plan", "Alice&#39;s", world.alice.organization, world.alice.key_id, "between ourselves"):
        assert hidden not in page.text
    assert "another draft" not in page.text
    assert "<script" not in page.text
    parsed = ParsedPage(page.text)
    here = [link for link in parsed.links if link.startswith("/")]
    assert not [link for link in here if not link.startswith(("/static/", "/approve/"))]
    (source,) = re.findall(r'<img src="([^"]+)"', page.text)
    assert client.get(source).headers["Content-Type"] == "image/webp"
    other = stored_media(world.alice.api)["id"]  # the same bytes, and no file of this draft
    assert client.get(re.sub(r"med_\w+", other, source)).status_code == 404
    another_link = re.sub(r"/approve/(.)", lambda first: "/approve/" + ("y" if first[1] == "x" else "x"), source)
    assert client.get(another_link).status_code == 404
    assert re.findall(r'name="decision" value="(\w+)"', page.text) == ["approve", "return"]


def test_the_person_with_the_link_approves_what_the_page_showed(
    world: RequestCast, draft: str, client: ApiClient
) -> None:
    link = new_link(world.alice.api, draft)
    answer = decide(client, link, decision="approve")
    assert (answer.status_code, answer.headers["Location"]) == (303, link)
    approved = read_draft(world.alice.api, draft)
    assert approved["status"] == "approved"
    assert approved["updatedBy"] == {"type": "link", "id": None, "name": None}
    page = client.get(link)
    assert "This post is approved" in page.text
    assert 'value="approve"' not in page.text
    audit = world.server.rows(AuditEntry)[-1]
    assert (audit["verb"], audit["subject"]) == ("POST /approve/<token:str>", draft)
    assert (audit["organization"], audit["user"], audit["key"]) == (world.alice.organization, None, None)
    (event,) = [data for type_, data in world.server.events() if type_ == "draft.approved"]
    assert event["by"] == {"type": "link", "id": None, "name": None}
    decided = decide(client, link, decision="return", note="Name the holidays.\r\nAll.")
    assert decided.headers["Location"] == f"{link}?done=returned"
    assert "Thank you" in client.get(decided.headers["Location"]).text
    returned = read_draft(world.alice.api, draft)
    assert (returned["status"], returned["note"]) == ("draft", "Name the holidays.\nAll.")


def test_what_was_changed_after_the_page_was_opened_is_not_approved(
    world: RequestCast, draft: str, client: ApiClient
) -> None:
    link = new_link(world.alice.api, draft)
    page = client.get(link)
    content = read_draft(world.alice.api, draft)["content"]
    change_draft(world.alice.api, draft, content=content | {"text": "Open on Tuesday"})
    with unchanged(world.server):
        refused = decide(client, link, page, decision="approve")
    assert (refused.status_code, "Open on Tuesday" in refused.text) == (409, True)
    assert "changed after you opened this page" in refused.text
    change_draft(world.alice.api, draft, title="no content")
    assert decide(client, link, refused, decision="approve").status_code == 303
    assert read_draft(world.alice.api, draft)["status"] == "approved"


def test_a_form_that_decides_nothing_or_says_too_much(world: RequestCast, draft: str, client: ApiClient) -> None:
    link = new_link(world.alice.api, draft)
    with unchanged(world.server):
        for fields in ({}, {"decision": "maybe"}, {"decision": "return", "note": "x" * 2001}):
            assert decide(client, link, **fields).status_code == 400
        assert decide(client, link, decision="approve", seen="").status_code == 409


def test_a_form_of_another_site_decides_nothing(world: RequestCast, draft: str, client: ApiClient) -> None:
    link = new_link(world.alice.api, draft)
    fields = fields_of(client.get(link)) | {"decision": "approve"}
    other = world.server.api()
    with unchanged(world.server):
        for who, sent, headers in (
            (client, fields, {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}),
            (client, fields | {"csrf_token": "0" * 64}, {}),
            (client, {name: value for name, value in fields.items() if name != "csrf_token"}, {}),
            (other, fields, {}),  # without the cookie
        ):
            answer = who.post(link, data=sent, headers=headers)
            assert (answer.status_code, error_of(answer)["rule"]) == (403, "csrf")


def test_a_draft_that_is_incomplete_can_only_be_returned(world: RequestCast, client: ApiClient) -> None:
    draft = new_draft(world.alice.api, text="x")["id"]
    link = new_link(world.alice.api, draft)
    page = client.get(link)
    assert re.findall(r'name="decision" value="(\w+)"', page.text) == ["return"]
    assert decide(client, link, page, decision="approve").status_code == 409
    assert decide(client, link, page, decision="return").status_code == 303


# --- Links that do not work ------------------------------------------------------------------------------------------


def _wait(world: RequestCast, draft: str, link: str) -> str:
    world.server.clock.skip(approval_links.LINK_MS / 1000)
    return link


def _revoke(world: RequestCast, draft: str, link: str) -> str:
    assert world.alice.api.delete(f"{PATH}/{draft}/link").json() == {"id": draft, "deleted": True}
    assert world.alice.api.delete(f"{PATH}/{draft}/link").status_code == 404
    return link


def _replace(world: RequestCast, draft: str, link: str) -> str:
    new_link(world.alice.api, draft)
    return link


def _delete(world: RequestCast, draft: str, link: str) -> str:
    assert world.alice.api.delete(f"{PATH}/{draft}").status_code == 200
    return link


def _publish(world: RequestCast, draft: str, link: str) -> str:
    content = read_draft(world.alice.api, draft)["content"] | {"media": []}
    change_draft(world.alice.api, draft, content=content)
    assert world.alice.api.post(f"{PATH}/{draft}/publish").status_code == 202
    return link


def _tamper(change: Any) -> Any:
    return lambda world, draft, link: "/approve/" + change(link.rpartition("/")[2])


ENDS = {
    "expired": _wait,
    "revoked": _revoke,
    "replaced by another link": _replace,
    "of a deleted draft": _delete,
    "of a published draft": _publish,
    "with one other character": _tamper(lambda token: token[:-1] + ("A" if token[-1] != "A" else "B")),
    "cut off": _tamper(lambda token: token[:-1]),
    "in other letters": _tamper(lambda token: token.swapcase()),
    "the digest of it": _tamper(digest),
    "not text": _tamper(lambda token: "%ff%00"),
}


@pytest.mark.matrix
@pytest.mark.parametrize("end", ENDS)
def test_a_link_that_does_not_work_shows_and_does_nothing(
    world: RequestCast, draft: str, client: ApiClient, end: str
) -> None:
    link = new_link(world.alice.api, draft)
    page = client.get(link)
    old = client.get("/approve/" + "0" * 43, headers=HTML)
    used = ENDS[end](world, draft, link)
    with unchanged(world.server):
        shown, sent = client.get(used, headers=HTML), decide(client, used, page, decision="approve")
    assert (shown.status_code, sent.status_code) == (404, 404)
    without_id = re.compile(r"req_\w+")
    assert without_id.sub("", shown.text) == without_id.sub("", old.text)  # as if there had never been one
    assert "Open on Monday" not in shown.text


def test_a_link_works_for_seven_days_and_only_its_digest_is_stored(
    world: RequestCast, draft: str, client: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="socialpub.web"):
        link = new_link(world.alice.api, draft)
        world.server.clock.skip(approval_links.LINK_MS / 1000 - 60)
        assert client.get(link).status_code == 200
    token = link.rpartition("/")[2]
    (row,) = world.server.rows(PostDraft)
    assert row["link_digest"] == digest(token)
    assert token not in str(row)
    assert token not in caplog.text


def test_the_same_key_gets_the_same_link_and_it_is_stored_sealed(world: RequestCast, draft: str) -> None:
    first, second = (world.alice.api.post(f"{PATH}/{draft}/link", headers={"Idempotency-Key": "one"}) for _ in range(2))
    assert first.json() == second.json()
    assert second.headers["Idempotency-Replayed"] == "true"
    (row,) = world.server.rows(IdempotencyRecord)
    assert first.json()["url"].rpartition("/")[2] not in str(row)


def test_a_link_is_of_one_draft(world: RequestCast, draft: str, client: ApiClient) -> None:
    other = new_draft(world.alice.api, **world.body(text="other"))["id"]
    link = new_link(world.alice.api, other)
    assert decide(client, link, decision="approve").status_code == 303
    assert [read_draft(world.alice.api, each)["status"] for each in (draft, other)] == ["draft", "approved"]
    approve_draft(world.alice.api, draft)
