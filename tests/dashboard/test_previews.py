"""Previews against the truth: what a draft's page shows is what the platform received."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
import pytest

from socialpub.domain.access import actions
from socialpub.domain.access.actor import build_operator
from socialpub.domain.identity import api_keys
from socialpub.domain.schemas.api_keys import KeyRequest
from tests.support.browser import server_states
from tests.support.browser.server_states import DashboardWorld
from tests.support.platforms.rule_drafts import EIGHT
from tests.support.request_cast import make_picture

WORDS = (
    "Brot",
    "パン屋です",
    "хлеб",
    "خبز",
    "bread",
    "🥐",
    "👩\u200d🍳",
    "á\u0301",
    "<b>&amp;</b>",
    "“cake”",
    "line\nbreak",
)
LINKS = ("https://cafe.example/menu", "https://cafe.example/a_(b)?q=1&r=2", "cafe.example")
TAGS = ("#baking", "#パン", "#хлеб")
MENTIONS = ("@ann.test", "@bob")
ALTS = ("", "A red door", "Zimt & Zucker <neu>", "扉")
IMAGES_MAX = {"facebook": 4, "instagram": 5, "linkedin": 4, "pinterest": 4, "tiktok": 4, "threads": 4}
NEEDS_IMAGE = ("instagram", "pinterest", "tiktok")
QUICK, ALL = 5, 40


class Shown(NamedTuple):
    """A post as its preview shows it, and as the simulator received it."""

    text: str
    media: list[tuple[str, str]]  # SHA-256 and alt text
    title: str
    spans: list[tuple[str, str]]  # links, mentions and tags of the text on Bluesky
    card: str  # address of the page whose card is shown


@pytest.fixture(scope="module")
def demo() -> Iterator[DashboardWorld]:
    with server_states.sample_server() as world:
        world.lab.lab.add_account("bluesky", handle="ann.test")  # who is mentioned
        yield world


@pytest.fixture
def api(demo: DashboardWorld) -> Iterator[httpx.Client]:
    """With a key of this test's own: the drafts of all tests are more than one key may write in a minute."""
    ((organization,),) = demo.ask("SELECT id FROM organization")
    owner = build_operator(demo.service, "test").within(organization)
    key = actions.perform_sync(owner, api_keys.create, KeyRequest(name="previews"))["key"]
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=demo.url, headers=headers, trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def browser(demo: DashboardWorld) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=demo.url, trust_env=False, timeout=60) as client:
        page = client.get("/login").text
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page))
        answer = client.post("/login", data=fields | demo.login)
        assert answer.status_code == httpx.codes.SEE_OTHER
        yield client


@pytest.fixture
def pictures(api: httpx.Client) -> dict[str, str]:
    """Stored images: SHA-256 by id."""
    found = {}
    for number in range(5):
        content = make_picture("JPEG", (600 + number, 600))
        body = api.post("/v1/media", files={"file": ("a.jpg", content, "image/jpeg")}).json()
        found[body["id"]] = body["sha256"]
    return found


def store(api: httpx.Client, name: str, content: bytes, content_type: str) -> tuple[str, str]:
    """Id and SHA-256 of a stored file."""
    body = api.post("/v1/media", files={"file": (name, content, content_type)}).json()
    return body["id"], body["sha256"]


class Supplies(NamedTuple):
    """What drafts are made of: ids of stored files, and the address of a page that has a card."""

    pictures: list[str]
    document: str
    video: str
    page: str


def make_content(name: str, number: int, account: str, supplies: Supplies) -> dict[str, Any]:
    """A draft of a platform, which its rules accept; the same for the same number."""
    dice = random.Random(f"{name} {number}")  # noqa: S311 - no secret
    first = [supplies.page] if dice.random() < 0.5 else []  # a platform that fetches cards fetches the first link's
    pool = [*WORDS, *(LINKS if first else []), *TAGS, *([] if name == "instagram" else MENTIONS)]
    text = " ".join([f"No. {number}", *first, *dice.sample(pool, dice.randint(1, 6))])
    count = dice.randint(1 if name in NEEDS_IMAGE else 0, IMAGES_MAX.get(name, 4))
    chosen = [("image", each) for each in dice.sample(supplies.pictures, count)]
    if number % QUICK == 1:
        chosen = [("video", supplies.video)]
    elif number % QUICK == 0 and name == "linkedin":
        chosen = [("document", supplies.document)]
    media = [
        {"kind": kind, "mediaId": each}
        | ({"altText": alt} if kind != "document" and (alt := dice.choice(ALTS)) else {})
        for kind, each in chosen
    ]
    options: dict[str, Any] = {
        "linkedin": {"documentTitle": f"Title {number} & more"} if number % QUICK == 0 else {},
        "pinterest": {"title": f"Title {number} & more"} | ({"destinationUrl": supplies.page} if first else {}),
        "facebook": {"story": True} if len(media) == 1 else {} if media else {"link": supplies.page},
    }.get(name, {})
    target = {"accountId": account} | ({"options": {"platform": name, **options}} if options else {})
    content: dict[str, Any] = {"targets": [target], "text": text} | ({"media": media} if media else {})
    if name in ("bluesky", "threads", "twitter") and dice.random() < 0.3:
        content["thread"] = [{"text": f"Second of {number}, {supplies.page}?{number} #on"}]
    elif name == "bluesky":
        content["firstComment"] = {"text": f"First comment of {number} <&>"}
    return content


def find(pattern: str, page: str) -> list[str]:
    """What the group of a pattern matches in a page, without its tags."""
    return [html.unescape(re.sub("<[^>]*>", "", found)) for found in re.findall(pattern, page, re.S)]


def read_preview(page: str, stored: dict[str, str]) -> list[Shown]:
    """The posts that a draft's page shows, each followed by its first comment."""
    shown = []
    for panel in page.split('<li class="panel preview">')[1:]:
        words, title = (
            find(r'<p class="words"[^>]*>(.*?)</p>', panel),
            find(r'<p class="preview-title"[^>]*>(.*?)</p>', panel),
        )
        files = re.findall(r'<(?:img src|a href)="([^"]*)"', panel)
        alts = find(r'<p dir="auto"[^>]*>(.*?)</p>\n</li>', panel)
        media = [
            (next(sha for id_, sha in stored.items() if id_ in path), alt.removesuffix("No description"))
            for path, alt in zip(files, alts, strict=True)
        ]
        spans = re.findall(r'<span class="preview-(link|mention|tag)">(.*?)</span>', panel, re.S)
        card = find(r"Card of the page <code>(.*?)</code>", panel)
        comments = words[-1:] if "First comment, published as a reply:" in panel else []
        texts = words[: len(words) - len(comments)]
        marked = [(kind, html.unescape(part)) for kind, part in spans]
        shown.append(Shown("".join(texts), media, "".join(title), marked, "".join(card)))
        shown += [Shown(comment, [], "", [], "") for comment in comments]
    return shown


def read_received(entry: Any, name: str) -> Shown:
    """A post as the simulator's ledger has it."""
    request = entry.request if isinstance(entry.request, dict) else {}
    title = request.get("title") or request.get("post_info", {}).get("title") or ""
    card, spans, media = request.get("link") or "", [], entry.media
    if name == "linkedin":
        title = request.get("content", {}).get("media", {}).get("title") or ""
    if name == "bluesky":
        record, raw = request["record"], request["record"]["text"].encode()
        card = record.get("embed", {}).get("external", {}).get("uri", "")
        media = () if card else media  # the card's own picture
        for facet in sorted(record.get("facets", []), key=lambda facet: facet["index"]["byteStart"]):
            part = raw[facet["index"]["byteStart"] : facet["index"]["byteEnd"]].decode()
            spans.append((facet["features"][0]["$type"].rpartition("#")[2], part))
    return Shown(entry.text or "", [(medium.sha256, medium.alt or "") for medium in media], title, spans, card)


def compare(
    demo: DashboardWorld, api: httpx.Client, browser: httpx.Client, pictures: dict[str, str], name: str, numbers: range
) -> None:
    """The previews of these drafts are what the platform received, post for post and field by field."""
    accounts = api.get("/v1/accounts").json()["data"]
    account = next(each["id"] for each in accounts if each["platform"] == name and each["status"] == "active")
    document = store(api, "a.pdf", b"%PDF-1.7 menu", "application/pdf")
    video = store(api, "a.mp4", httpx.get(f"{demo.lab.url}/pages/clip.mp4").content, "video/mp4")
    supplies = Supplies(sorted(pictures), document[0], video[0], f"{demo.lab.url}/pages/menu")
    contents = [make_content(name, number, account, supplies) for number in numbers]
    stored = pictures | dict([document, video])
    made = [api.post("/v1/drafts", json=content).json() for content in contents]
    assert [draft["problems"] for draft in made] == [[]] * len(numbers)
    shown = [post for draft in made for post in read_preview(browser.get(f"/drafts/{draft['id']}").text, stored)]
    assert len(shown) == sum(1 + len(each.get("thread", [])) + ("firstComment" in each) for each in contents)
    before = len(demo.lab.lab.ledger.entries())

    def publish(draft: dict[str, Any]) -> str:
        answer = api.post(f"/v1/drafts/{draft['id']}/publish", headers={"Prefer": "wait=50"})
        return str(answer.json().get("status"))

    with ThreadPoolExecutor(QUICK) as threads:
        assert set(threads.map(publish, made)) == {"published"}
    entries = [entry for entry in demo.lab.lab.ledger.entries(since=before) if entry.platform == name]
    assert sorted(read_received(entry, name) for entry in entries) == sorted(shown)


@pytest.mark.slow
@pytest.mark.parametrize("name", EIGHT)
def test_the_preview_is_what_the_platform_receives(
    demo: DashboardWorld, api: httpx.Client, browser: httpx.Client, pictures: dict[str, str], name: str
) -> None:
    compare(demo, api, browser, pictures, name, range(QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("name", EIGHT)
def test_forty_previews_are_what_the_platform_receives(
    demo: DashboardWorld, api: httpx.Client, browser: httpx.Client, pictures: dict[str, str], name: str
) -> None:
    compare(demo, api, browser, pictures, name, range(QUICK, ALL))
