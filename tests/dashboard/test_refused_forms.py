"""Refused forms: the page that follows leads back to pages, and has what was typed."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import httpx
import pytest

from socialpub.store.schema.models import Instance, User
from tests.support.app_server import ApiClient
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML, LOST, PROOF_EXPIRED, REFUSED, failed_post, send_compose, send_form
from tests.support.post_drafts import new_draft
from tests.support.request_cast import RequestCast

Refuse = Callable[[RequestCast, ApiClient], httpx.Response]


def _refuse(path: str, **fields: str) -> Refuse:
    """A form at an address with the ids of the world's rows."""
    return lambda world, browser: send_form(browser, _fill(world, path), **fields)


def _fill(world: RequestCast, path: str) -> str:
    names = {"profile": world.alice.profile, "account": world.alice.bluesky, "key": world.alice.key_id}
    return path.format(**names)


def _without_proof(path: str, **fields: str) -> Refuse:
    """A form that needs the password, which is not in it."""

    def send(world: RequestCast, browser: ApiClient) -> httpx.Response:
        world.server.clock.skip(PROOF_EXPIRED)
        return send_form(browser, _fill(world, path), **fields)

    return send


def _send_file(path: str, name: str, content: bytes, **fields: str) -> Refuse:
    def send(world: RequestCast, browser: ApiClient) -> httpx.Response:
        given = {"csrf_token": browser.headers["X-CSRF-Token"], "page": "/wherever"} | fields
        return browser.post(path, data=given, files={"file": (name, content, "")}, headers=HTML)

    return send


def _edit_post(world: RequestCast, browser: ApiClient) -> httpx.Response:
    post = world.scheduled()
    return send_compose(browser, "save", to=f"/posts/{post}/edit", page=f"/compose?post={post}", day="x", seen="x")


def _change_channel(world: RequestCast, browser: ApiClient) -> httpx.Response:
    made = send_form(browser, "/settings/notifications/new/slack", secret_url="https://127.0.0.1:9/x")
    return send_form(browser, f"{made.headers['Location']}/change", tells="chosen", page=made.headers["Location"])


def _move_in_bulk(world: RequestCast, browser: ApiClient) -> httpx.Response:
    batch = world.alice.api.get(f"/v1/posts/{world.published()}").json()["batchId"]
    return send_form(browser, "/posts/bulk", do="later", page="/posts?q=x", **{f"pick.{batch}": ""})


def _refuse_time(way: str) -> Refuse:
    """A time that is over, of a post whose state allows this."""

    def send(world: RequestCast, browser: ApiClient) -> httpx.Response:
        post = failed_post(world.server, world.alice, REFUSED) if way == "retry" else world.scheduled()
        fields = {"day": "2020-02-03", "clock": "04:05", "in_zone": "UTC", "page": f"/posts/{post}"}
        return send_form(browser, f"/posts/{post}/{way}", **fields)

    return send


def _settle(page: str) -> Refuse:
    def send(world: RequestCast, browser: ApiClient) -> httpx.Response:
        post = failed_post(world.server, world.alice, LOST)
        fields = {"published": "yes", "uri": "x" * 2049, "page": f"/posts/{post}{page}"}
        return send_form(browser, f"/posts/{post}/settle", **fields)

    return send


def _move_card(world: RequestCast, browser: ApiClient) -> httpx.Response:
    post = world.alice.api.get(f"/v1/posts/{world.scheduled()}").json()
    fields = {"day": "2020-02-03", "clock": "04:05", "in_zone": "UTC", "view": "week"}
    return send_form(browser, f"/publications/{post['batchId']}/move", **fields)


def _move_draft(world: RequestCast, browser: ApiClient) -> httpx.Response:
    draft = new_draft(world.alice.api, text="x", scheduledAt="2098-01-01T10:00:00Z")["id"]
    fields = {"from": "4039408800000", "day": "2098-03-30", "clock": "02:30", "in_zone": "Europe/Berlin"}
    return send_form(browser, f"/drafts/{draft}/move", **fields)


def _disconnect(world: RequestCast, browser: ApiClient) -> httpx.Response:
    world.scheduled(scheduledAt="2098-01-01T10:00:00Z")
    return _without_proof("/accounts/{account}/disconnect", posts="cancel")(world, browser)


def _change_role(world: RequestCast, browser: ApiClient) -> httpx.Response:
    sign_in(world.server, world.alice.organization, role="author", name="ann")
    ann = next(row["id"] for row in world.server.rows(User) if row["role"] == "author")
    return _without_proof(f"/settings/members/{ann}", role="admin")(world, browser)


def _resume(world: RequestCast, browser: ApiClient) -> httpx.Response:
    world.server.service.write(lambda tx: Instance.update(paused="restored").execute()).result()
    answer = _without_proof("/overview/compare", overdue="publish")(world, browser)
    world.server.service.write(lambda tx: Instance.update(paused=None).execute()).result()
    return answer


TYPED = 'value="2020-02-03"', 'value="04:05"'
KEPT_FIELDS: dict[str, tuple[Refuse, tuple[str, ...]]] = {
    "reschedule": (_refuse_time("move"), ('<details class="reveal" open>', *TYPED)),
    "retry": (_refuse_time("retry"), ('<details class="reveal" open>', *TYPED)),
    "settle": (_settle(""), (f'value="{"x" * 2049}"',)),
    "settle on its page": (_settle("/settle"), (f'value="{"x" * 2049}"',)),
    "card": (_move_card, TYPED),
    "draft": (_move_draft, ('value="2098-03-30"', 'value="02:30"')),
    "disconnect": (_disconnect, ('value="cancel" id="cancel" checked>', 'value="keep" id="keep">')),
    "role": (_change_role, ('<option value="admin" selected',)),
    "resume": (_resume, ('value="publish" id="publish" checked>',)),
    "organization": (_without_proof("/settings/organization/delete", confirm="My café"), ('value="My café"',)),
}


@pytest.mark.parametrize(("refuse", "typed"), KEPT_FIELDS.values(), ids=KEPT_FIELDS)
def test_a_refused_form_comes_back_where_it_says_why_and_as_typed(
    world: RequestCast, browser: ApiClient, refuse: Refuse, typed: tuple[str, ...]
) -> None:
    answer = refuse(world, browser)
    assert answer.status_code in (400, 403), answer.text
    assert re.findall(r"<[^>]* autofocus", answer.text) == ['<p class="problem" role="alert" tabindex="-1" autofocus']
    assert [words for words in typed if words not in answer.text] == []


def test_a_retry_at_a_time_that_is_left_out_sends_nothing(world: RequestCast, browser: ApiClient) -> None:
    post = failed_post(world.server, world.alice, REFUSED)
    answer = send_form(browser, f"/posts/{post}/retry", day="", clock="10:00", in_zone="UTC")
    assert (answer.status_code, "Choose a day and a time." in answer.text) == (400, True)
    assert world.alice.api.get(f"/v1/posts/{post}").json()["status"] == "failed"


REFUSED_FORMS: dict[str, Refuse] = {
    "password": _refuse("/settings/password", password="wrong", new_password="x", page="/settings"),
    "profile": _refuse("/settings/profiles/{profile}", name=""),
    "slots": _refuse("/settings/profiles/{profile}/slots", mon="nonsense", page="/settings/profiles"),
    "profile deletion": _refuse("/settings/profiles/{profile}/delete", page="/settings/profiles"),
    "channel": _change_channel,
    "composer": lambda world, browser: send_compose(browser, "check"),
    "group": lambda world, browser: send_compose(browser, to="/compose/groups"),
    "draft": lambda world, browser: send_compose(browser, to="/drafts", text="a", when="later", day="x"),
    "upload": _send_file("/compose/media", "a.txt", b"text"),
    "edited post": _edit_post,
    "import": _send_file("/import/check", "a.csv", b"no columns"),
    "import undone": _refuse("/import/undo", name="x"),
    "bulk": _move_in_bulk,
    "settlement": lambda world, browser: browser.post(
        "/overview/settle", data={"csrf_token": browser.headers["X-CSRF-Token"], "post": "x"}, headers=HTML
    ),
}


@pytest.mark.parametrize("refuse", REFUSED_FORMS.values(), ids=REFUSED_FORMS)
def test_the_forms_of_a_refusal_lead_back_to_pages(world: RequestCast, browser: ApiClient, refuse: Refuse) -> None:
    """Such as the choice of the profile, and the sign-in after the session has ended."""
    assert browser.post("/v1/profiles", json={"name": "Second"}).status_code == 201
    answer = refuse(world, browser)
    assert answer.headers["Content-Type"].startswith("text/html"), answer.text
    pages = {html.unescape(page) for page in re.findall(r'name="page" value="([^"]*)"', answer.text)}
    assert pages
    assert {page: browser.get(page, headers=HTML).status_code for page in pages} == dict.fromkeys(pages, 200)


# --- Forms that are too large to be kept while someone signs in ------------------------------------------------------


LARGE_FORMS: dict[str, tuple[str, dict[str, str], bool]] = {
    "more than fits into the form of the sign-in": ("/compose", {"text": "x" * 60_000}, False),
    "more than is read": ("/compose", {"text": "x" * 70_000}, False),
    "more than is ever accepted": ("/drafts", {"text": "x" * 600_000}, False),
    "a description": ("/library/med_0000000000000000000000/describe", {"altText": "x" * 70_000}, False),
    "an address that takes little": ("/posts/bulk", {"pick.x": "1" * 20_000}, False),
    "a field beside a file": ("/compose/media", {"text": "x" * 70_000}, True),
    "the second field beside a file": ("/compose/media", {"text": "x" * 30_000, "piece.1": "x" * 40_000}, True),
}


@pytest.mark.parametrize(("path", "fields", "with_file"), LARGE_FORMS.values(), ids=LARGE_FORMS)
def test_a_large_form_of_an_ended_session_is_said_to_be_lost(
    world: RequestCast, path: str, fields: dict[str, str], *, with_file: bool
) -> None:
    stranger = world.server.api()
    files = {"file": ("a.jpg", b"x" * 100_000, "")} if with_file else None
    answer = stranger.post(path, data={"page": "/compose?draft=x"} | fields, files=files, headers=HTML)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login?next=/compose%3Fdraft%3Dx"), answer.text
    page = stranger.get(answer.headers["Location"], headers=HTML).text
    assert "so nothing was sent or changed. The form is too large to be filled in again:" in page
    assert 'class="notice bad"' in page
