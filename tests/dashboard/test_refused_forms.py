"""Forms that are refused: the page that follows leads back to pages."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import httpx
import pytest

from tests.support.app_server import ApiClient
from tests.support.dashboard_forms import HTML, send_compose, send_form
from tests.support.request_cast import RequestCast

Refuse = Callable[[RequestCast, ApiClient], httpx.Response]


def _refuse(path: str, **fields: str) -> Refuse:
    """A form at an address with the ids of the world's rows."""
    return lambda world, browser: send_form(browser, _fill(world, path), **fields)


def _fill(world: RequestCast, path: str) -> str:
    names = {"profile": world.alice.profile, "account": world.alice.bluesky, "key": world.alice.key_id}
    return path.format(**names)


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


REFUSED_FORMS: dict[str, Refuse] = {
    "password": _refuse("/settings/password", password="wrong", new_password="x", page="/settings"),
    "profile": _refuse("/settings/profiles/{profile}", name=""),
    "slots": _refuse("/settings/profiles/{profile}/slots", slots="nonsense", page="/settings/profiles"),
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
