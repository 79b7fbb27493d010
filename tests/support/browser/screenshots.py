"""Screenshots of every dashboard page in every server state and theme (`make screenshots`).

A page without a placeholder in its path is included automatically. A placeholder without an entry in `PARTS` makes
`tests/project/test_screenshots.py` fail.
"""

from __future__ import annotations

import argparse
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from socialpub.base.runtime import format_iso
from socialpub.web.dashboard.notifications import KINDS
from socialpub.web.docs.guides import GUIDES
from socialpub.web.routes import ROUTES
from tests.support.browser import server_states
from tests.support.browser.chromium import BrowserTab, chromium
from tests.support.browser.server_states import DashboardWorld

ROOT = Path(__file__).parents[3]
WIDTHS = (1280, 390)
TALL = 10_000
README = {
    "overview": ("/", 1280, False),
    "calendar": ("/calendar", 1280, False),
    "post": ("/posts/{unknown}", 390, True),
}
"""The three that the README shows: their addresses, how wide, and whether in the dark."""

NO_PICTURE = {
    "/connect/<platform:str>/callback": "platforms send browsers there; `test_connecting.py` looks at what comes of it",
    "/connect/<platform:str>/done": "seen once after connecting; `test_connecting.py` looks at it",
    "/approve/<token:str>": "only the digest of its token is stored; `test_approval_links.py` looks at it",
    "/overview/cancel": "its account stands in the query: in `QUERIES`",
    "/static/<name:str>": "no page",
    "/media/<media_id:str>/<name:str>": "no page",
    "/library/<media_id:str>/thumbnail/<edge:str>": "no page",
    "/approve/<token:str>/library/<media_id:str>/thumbnail/<edge:str>": "no page",
    "/healthz": "for programs",
    "/readyz": "for programs",
    "/metrics": "for programs",
    "/openapi.json": "for programs",
    "/llms.txt": "for programs",
    "/oauth/client-metadata.json": "for programs",
    "/oauth/jwks.json": "for programs",
    "/.well-known/oauth-authorization-server": "for programs",
    "/.well-known/oauth-protected-resource": "for programs",
    "/oauth/authorize": "what a program asks for stands in the query; `test_oauth_pages.py` looks at it",
}
QUERIES = ("/overview/cancel?account={revoked}", "/posts?status=failed", "/posts?q=nothing+has+this")
LAST_PARTS = {"cancel": "queued", "settle": "unknown", "board": "boards"}  # what a thing has to be for this page


def _ids(table: str, **wanted: str) -> Callable[[DashboardWorld], str | None]:
    """The newest row of a table that has these values."""
    meets = " AND ".join(["1", *(f"{name} = ?" for name in wanted)])

    def find(world: DashboardWorld) -> str | None:
        found = world.ask(f"SELECT id FROM {table} WHERE {meets} ORDER BY id DESC LIMIT 1", *wanted.values())
        return str(found[0][0]) if found else None

    return find


def _queued_batch(world: DashboardWorld) -> str | None:
    found = world.ask("SELECT batch FROM post WHERE status = 'queued' ORDER BY scheduled_at DESC LIMIT 1")
    return str(found[0][0]) if found else None


def _unknown(world: DashboardWorld) -> str | None:
    found = world.ask("SELECT id FROM post WHERE error LIKE '%publish.outcome_unknown%' LIMIT 1")
    return str(found[0][0]) if found else None


def _always(value: str) -> Callable[[DashboardWorld], str | None]:
    return lambda world: value


def _today(length: int) -> Callable[[DashboardWorld], str | None]:
    return lambda world: format_iso(world.service.now_ms)[:length]


PARTS: Mapping[str, Mapping[str, Callable[[DashboardWorld], str | None]]] = {
    "post_id": {
        **{
            status: _ids("post", status=status)
            for status in ("published", "queued", "publishing", "failed", "rejected")
        },
        "canceled": _ids("post", status="canceled"),
        "unknown": _unknown,
    },
    "batch_id": {"queued": _queued_batch},
    "draft_id": {"draft": _ids("draft")},
    "account_id": {
        "active": _ids("account", status="active"),
        "revoked": _ids("account", status="revoked"),
        "boards": _ids("account", platform="pinterest"),
    },
    "endpoint_id": {"endpoint": _ids("webhook_endpoint")},
    "delivery_id": {status: _ids("webhook_delivery", status=status) for status in ("succeeded", "pending", "failed")},
    "media_id": {"media": _ids("media")},
    "key_id": {"key": _ids("api_key")},
    "profile_id": {"profile": _ids("profile")},
    "member_id": {"member": _ids("user")},
    "platform": {name: _always(name) for name in ("bluesky", "facebook", "tiktok")},  # by a form, by consent, off
    "channel_id": {"channel": _ids("notification_channel")},
    "kind": {name: _always(name) for name in KINDS},
    "month": {"month": _today(7)},
    "day": {"week": _today(10)},
    "guide": {name: _always(name) for name in GUIDES},
    "code": {"code": _always("platform_rejected")},
    "part": {name: _always(name) for name in ("posts", "schemas")},
    "operation": {"operation": _always("settlePost")},
    "schema": {"schema": _always("Post")},
    "event": {"event": _always("post.published")},
    "rule": {"rule": _always("publish.outcome_unknown")},
    "token": {"invitation": lambda world: world.invitation},
}


@dataclass(frozen=True)
class PageView:
    """An address, and the name of its picture."""

    name: str
    address: str
    is_open: bool = False


def page_paths() -> list[str]:
    """The paths of the table that show a page."""
    shown = {route.path for route in ROUTES if route.method == "GET" and not route.path.startswith("/v1/")}
    return sorted(shown - NO_PICTURE.keys())


def placeholders(path: str) -> list[str]:
    return re.findall(r"<(\w+):\w+>", path)


def page_views(world: DashboardWorld, *, reference: bool = False) -> Iterator[PageView]:
    """Every page of a world, once for each kind of thing that its address may name there. `reference`: that too."""
    for path in page_paths():
        if path.startswith("/docs") and not reference:
            continue
        found = placeholders(path)
        if path.startswith("/setup/"):
            continue  # nobody may have signed up: `take_all` has a world for it
        if not found:
            yield PageView(_named(path), path, is_open=path == "/login")
            continue
        (part,) = found
        wanted = PARTS[part]
        if (only := LAST_PARTS.get(path.rpartition("/")[2])) in wanted:
            wanted = {only: wanted[only]}
        for label, find in wanted.items():
            if (value := find(world)) is not None:
                address = re.sub(r"<\w+:\w+>", value, path)
                yield PageView(_named(f"{re.sub('<.*?>', '', path)}-{label}"), address, is_open=part == "token")
    yield from _queried(world)
    yield PageView("not-found", "/nowhere")


def _queried(world: DashboardWorld) -> Iterator[PageView]:
    for address in QUERIES:
        if (filled := _filled(world, address)) is not None:
            yield PageView(_named(re.sub(r"=.*", "", address)), filled)


def _filled(world: DashboardWorld, address: str) -> str | None:
    """The address with `{revoked}` and the like as ids of this world."""
    known = {**PARTS["post_id"], **PARTS["account_id"]}
    for label in re.findall(r"\{(\w+)\}", address):
        if (value := known[label](world)) is None:
            return None
        address = address.replace(f"{{{label}}}", value)
    return address


def _named(text: str) -> str:
    return re.sub(r"\W+", "-", text).strip("-") or "overview"


# --- Taking them -------------------------------------------------------------------------------------------------


def sign_in(tab: BrowserTab, world: DashboardWorld) -> None:
    """As the world's owner."""
    tab.show(f"{world.url}/login", width=1280)
    tab.fill(**world.login)
    tab.click("main form button")


def take_pictures(tab: BrowserTab, world: DashboardWorld, views: Iterable[PageView], into: Path) -> None:
    """The pictures of these pages; those that somebody who is signed in does not see are taken last."""
    into.mkdir(parents=True, exist_ok=True)
    if world.login:
        sign_in(tab, world)
    for view in sorted(views, key=lambda view: view.is_open):
        if view.is_open:
            tab.page.context.clear_cookies()
        for width in WIDTHS:
            tab.show(f"{world.url}{view.address}", width=width)
            for dark in (False, True):
                tab.look(width=width, dark=dark)
                tab.page.wait_for_load_state("networkidle")
                _picture(tab, into / f"{view.name}-{width}-{'dark' if dark else 'light'}.png")
    tab.page.context.clear_cookies()


def _picture(tab: BrowserTab, file: Path) -> None:
    """The whole page, or its beginning where it is a book."""
    tall = tab.ask("document.documentElement.scrollHeight") > TALL
    tab.page.screenshot(path=file, full_page=not tall)


def take_all(tab: BrowserTab, folder: Path) -> None:
    """Every page in every state."""
    with server_states.fresh_server() as world:
        take_pictures(tab, world, [PageView("setup", f"/setup/{world.invitation}", is_open=True)], folder / "empty")
    with server_states.empty_server() as world:
        take_pictures(tab, world, page_views(world, reference=True), folder / "empty")
    with server_states.full_server() as world:
        take_pictures(tab, world, page_views(world), folder / "full")
        named = ("/", "/posts", "/calendar", "/compose", "/settings/system")
        with world.pause():
            take_pictures(tab, world, [PageView(_named(address), address) for address in named], folder / "paused")
    with server_states.long_words_server() as world:
        take_pictures(tab, world, page_views(world), folder / "long")


def take_readme(tab: BrowserTab, folder: Path) -> None:
    """The README's three, small: what is seen first, in as many colours as it needs."""
    folder.mkdir(parents=True, exist_ok=True)
    with server_states.full_server() as world:
        sign_in(tab, world)
        for name, (address, width, dark) in README.items():
            tab.show(f"{world.url}{_filled(world, address)}", width=width, dark=dark)
            tab.page.wait_for_load_state("networkidle")
            seen = Image.open(io.BytesIO(tab.page.screenshot())).convert("RGB")
            seen.quantize(128, dither=Image.Dither.NONE).save(folder / f"{name}.png", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Pictures of every page.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("screenshots"))
    parser.add_argument("--readme", action="store_true", help="only the README's, in docs/pictures")
    options = parser.parse_args()
    with chromium() as tab:
        if options.readme:
            take_readme(tab, ROOT / "docs" / "pictures")
        else:
            take_all(tab, options.folder)


if __name__ == "__main__":
    main()
