"""Headless Chromium driven by Playwright: open a page, query it, evaluate JavaScript."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Page, Request, sync_playwright

FLAGS = ("--no-sandbox", "--disable-gpu", "--hide-scrollbars")
MS = 15_000
OVERLAPS = ("bgOverlap", "elmPartiallyObscuring")  # text over other text; a toast of several lines over the page


class BrowserTab:
    """One tab. `asked` are the addresses that it has requested, `referrers` those that it told others of, `complaints`
    what it wrote to its console. `page` is Playwright's own."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.asked: list[str] = []
        self.referrers: list[str] = []
        self.complaints: list[str] = []
        self._protocol = page.context.new_cdp_session(page)
        self._axe = Axe()
        page.set_default_timeout(MS)
        page.on("request", self._hear)
        page.on("console", self._complain)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _hear(self, request: Request) -> None:
        self.asked.append(request.url)
        self.referrers += [value for name, value in request.headers.items() if name.lower() == "referer" and value]

    def _complain(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of one command of the browser's own protocol."""
        return dict(self._protocol.send(method, params))

    def show(self, url: str, *, width: int, dark: bool = False) -> None:
        """Open a page as a screen of this width sees it, and wait until it is there."""
        self.look(width=width, dark=dark)
        self.asked.clear()
        self.complaints.clear()
        self.page.goto(url)

    def look(self, *, width: int, dark: bool = False) -> None:
        """See the page that is open, and those to come, on a screen of this width."""
        self.page.set_viewport_size({"width": width, "height": 800})
        self.page.emulate_media(color_scheme="dark" if dark else "light")

    def click(self, selector: str) -> None:
        """Press a link or button, and wait for the page that it leads to."""
        with self.page.expect_event("load"):
            self.page.locator(selector).first.click()

    def reload(self) -> None:
        """Ask for the same page once more."""
        self.page.reload()

    def back(self) -> None:
        """The page before this one."""
        self.page.go_back()

    def stop_next(self) -> None:
        """Have the browser stop, as Esc stops it, as soon as it begins to leave the page."""
        self.ask("navigation.addEventListener('navigate', () => setTimeout(() => window.stop()), { once: true })")

    def menu(self) -> None:
        """Open the menu of whoever is signed in."""
        self.page.locator(".who .menu summary").last.click()

    def text(self, selector: str) -> str:
        """What stands in an element."""
        return self.page.locator(selector).first.inner_text()

    def fill(self, **fields: str) -> None:
        """Write into fields, by their names."""
        for name, value in fields.items():
            field = self.page.locator(f"main [name={name}]:not([type=hidden])").first
            is_list = field.evaluate("field => field.tagName") == "SELECT"
            _ = field.select_option(value) if is_list else field.fill(value)

    def ask(self, script: str) -> Any:
        """The value of an expression in the page."""
        return self.page.evaluate(script)

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)

    def picture(self, file: Path) -> None:
        """The whole page as a PNG."""
        self.page.screenshot(path=file, full_page=True)

    def barriers(self) -> list[str]:
        """What axe finds wrong with the page that is open, and what it cannot tell.

        Where text lies over other text (`OVERLAPS`) it cannot tell the contrast: `page_checks.CONTRAST` measures that.
        Nor can it tell whether a video needs captions: the simulator shows videos as they were sent, without any.
        """
        found = self._axe.run(self.page).response
        return [
            f"{rule['id']} ({kind}): {node['html'][:200]}"
            for kind in ("violations", "incomplete")
            for rule in found[kind]
            if rule["id"] != "video-caption"
            for node in rule["nodes"]
            if not any((each.get("data") or {}).get("messageKey") in OVERLAPS for each in node["any"])
        ]


@contextlib.contextmanager
def chromium() -> Iterator[BrowserTab]:
    """A tab in a browser of its own."""
    program = shutil.which("chromium")
    assert program, "chromium is not installed; run: apt-get install -y chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield BrowserTab(browser.new_context(service_workers="block").new_page())
        finally:
            browser.close()
