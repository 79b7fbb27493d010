"""Users' texts have `dir="auto"` on every page that shows them."""

from __future__ import annotations

import html.parser
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from socialpub.base.runtime import format_iso
from socialpub.store.database import Tx
from socialpub.store.schema.models import Post
from tests.support.browser import server_states
from tests.support.browser.screenshots import page_views
from tests.support.browser.server_states import DAY_MS, DashboardWorld

WORDS = {
    name: f"שלום{number}"
    for number, name in enumerate(
        "organization profile key account scheduled published refused unknown comment alt endpoint channel refusal "
        "board typed".split()
    )
}
"""A Hebrew word for each place where a person, or a platform, writes."""
WORD = re.compile("שלום\\d+")
INLINE = {"a", "abbr", "b", "bdi", "code", "em", "label", "small", "span", "strong", "time"}
VOID = {"area", "base", "br", "hr", "img", "input", "link", "meta", "wbr"}
SHOWN = {"alt", "placeholder", "title", "value"}
TYPED = {"text", "search"}


class Page(html.parser.HTMLParser):
    """Collects the words that a page shows, and those whose direction nothing sets."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.words: set[str] = set()
        self.undirected: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        for name in SHOWN & given.keys():
            is_seen = tag not in ("option", "button") and given.get("type") != "hidden"
            if (found := WORD.findall(given[name] or "")) and is_seen:
                self._note(found, self._is_auto(tag, given))
        if (tag == "textarea" or (tag == "input" and given.get("type", "text") in TYPED)) and _is_prose(given):
            self._note([], self._is_auto(tag, given))
        if tag not in VOID:
            self._open.append((tag, given))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag, "the page is not well-formed"

    def handle_data(self, data: str) -> None:
        if found := WORD.findall(data):
            self._note(found, self._is_directed())

    def _is_directed(self) -> bool:
        """Whether the element that holds the text, or the nearest block around it, has its direction from the text."""
        for tag, given in reversed(self._open):
            if self._is_auto(tag, given):
                return True
            if tag not in INLINE:
                break
        return False

    def _note(self, words: list[str], is_directed: bool) -> None:
        self.words.update(words)
        if not is_directed:
            self.undirected.append(self.get_starttag_text() or "")

    @staticmethod
    def _is_auto(tag: str, given: dict[str, str | None]) -> bool:
        return given.get("dir") == "auto"


def _is_prose(given: dict[str, str | None]) -> bool:
    """Whether a person may write any language into the field: codes, dates and addresses are ASCII."""
    codes = {"code"}
    return given.get("name") not in codes and given.get("readonly", "no") == "no"


@pytest.fixture(scope="module")
def world() -> Iterator[DashboardWorld]:
    with server_states.written_server(WORDS) as made:
        with api_of(made) as api:
            write(made, api)
        yield made


@pytest.fixture(scope="module")
def browser(world: DashboardWorld) -> Iterator[httpx.Client]:
    with client(world, follow_redirects=True) as browser:
        submit(browser, "/login", **world.login)
        yield browser


def client(world: DashboardWorld, **more: Any) -> httpx.Client:
    return httpx.Client(base_url=world.url, trust_env=False, verify=False, timeout=60, **more)


def api_of(world: DashboardWorld) -> httpx.Client:
    return client(world, headers={"Authorization": f"Bearer {world.key}"})


def submit(browser: httpx.Client, path: str, at: str = "", **fields: str) -> httpx.Response:
    """Send the form of a page to `path`, with the page's CSRF token."""
    token = re.search(r'name="csrf_token" value="([^"]*)"', browser.get(at or path).text)
    assert token is not None
    sent = {"csrf_token": token[1], "page": at or path, **fields}
    return browser.post(path, data=sent, headers={"Origin": str(browser.base_url).rstrip("/")})


def write(world: DashboardWorld, api: httpx.Client) -> None:
    """Every kind of thing that a person or a platform may name or write, each with its word."""
    image = httpx.get(f"{world.lab.url}/pages/a.png", trust_env=False).content
    media = api.post("/v1/media", files={"file": ("a.png", image)}, data={"altText": WORDS["alt"]}).json()["id"]
    hook = {"url": f"{world.lab.url}/hooks/503", "description": WORDS["endpoint"]}
    endpoint = api.post("/v1/webhook-endpoints", json=hook).raise_for_status().json()["id"]
    api.post(f"/v1/webhook-endpoints/{endpoint}/test", json={}).raise_for_status()
    ntfy = {"kind": "ntfy", "url": world.lab.url, "topic": "posts"}
    channel = {"to": ntfy, "description": WORDS["channel"]}
    api.post("/v1/notification-channels", json=channel).raise_for_status()
    later = format_iso(world.service.now_ms + DAY_MS)
    files = [{"mediaId": media, "kind": "image"}]
    comment = {"text": WORDS["comment"]}
    post(api, ("bluesky", "pinterest"), WORDS["scheduled"], scheduledAt=later, media=files)
    post(api, ("bluesky",), WORDS["published"], firstComment=comment, media=files)
    refused = {"error": {"message": WORDS["refusal"], "type": "OAuthException", "code": 368}}
    world.lab.lab.faults.add([{"fault": "status:400", "platform": "facebook", "body": refused}])
    post(api, ("facebook",), WORDS["refused"])
    world.lab.lab.faults.clear()
    post(api, ("bluesky",), WORDS["unknown"])
    world.service.write(_lose).result()


def post(api: httpx.Client, names: tuple[str, ...], text: str, **more: Any) -> None:
    body = {"targets": [{"platform": name} for name in names], "text": text, **more}
    answer = api.post("/v1/posts", json=body)
    assert answer.is_success, answer.text


def _lose(tx: Tx) -> None:
    """A published post becomes one whose answer was lost, without the minutes that socialpub looks for it."""
    error = {"code": "platform_unavailable", "message": "lost", "rule": "publish.outcome_unknown", "docUrl": "x"}
    changed = {"status": "failed", "error": json.dumps(error), "error_code": error["code"], "platform_uri": None}
    assert Post.update(changed).where(Post.text == WORDS["unknown"]).execute() == 1


def shown(world: DashboardWorld, browser: httpx.Client) -> Iterator[tuple[str, str]]:
    """Every page of the dashboard, and what forms and filters answer to what was typed into them."""
    for view in page_views(world):
        if not view.is_open:
            yield view.address, browser.get(view.address).text
    typed = WORDS["typed"]
    accounts = [id_ for (id_,) in world.ask("SELECT id FROM account")]
    composed = {f"{id_}.text": typed for id_ in accounts} | {f"to.{id_}": "yes" for id_ in accounts}
    composed |= {"key": "0" * 32, "text": typed, "new-alt": typed, "do": "check"}
    forms: list[tuple[str, str, dict[str, str]]] = [
        ("/compose", "/compose", composed),
        ("/settings/profiles", "/settings/profiles", {"name": typed * 40}),
        ("/settings/keys", "/settings/keys", {"name": typed * 40}),
        ("/webhooks", "/webhooks", {"url": "no address", "description": typed}),
        (
            "/settings/notifications/new/ntfy",
            "/settings/notifications/new/ntfy",
            {"topic": typed, "description": typed},
        ),
        ("/settings/zone", "/settings", {"zone": typed}),
    ]
    for path, at, fields in forms:
        yield f"POST {path}", submit(browser, path, at, **fields).text
    for address in (
        f"/posts?q={typed}",
        f"/posts?errorCode={typed}",
        f"/posts?batchId={typed}",
        f"/settings/log?kind={typed}",
    ):
        yield address, browser.get(address).text
    with client(world) as stranger:
        for path in (f"/invited/{world.invitation}", f"/{typed}", f"/docs/rules/{typed}", f"/docs/errors/{typed}"):
            yield path, stranger.get(path).text


@pytest.mark.slow
def test_every_text_of_a_person_runs_in_its_own_direction(world: DashboardWorld, browser: httpx.Client) -> None:
    seen, undirected = set[str](), dict[str, list[str]]()
    for address, text in shown(world, browser):
        page = Page(text)
        seen |= page.words
        if page.undirected:
            undirected[address] = page.undirected
    assert undirected == {}
    assert {name for name, word in WORDS.items() if word not in seen} == set()


def test_the_simulators_page_shows_texts_in_their_own_direction(world: DashboardWorld) -> None:
    page = Page(httpx.get(f"{world.lab.url}/", trust_env=False).text)
    assert {WORDS["published"], WORDS["alt"]} <= page.words
    assert page.undirected == []
