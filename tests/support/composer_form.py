"""The composer's form as a browser would fill and send it."""

from __future__ import annotations

from html.parser import HTMLParser

import httpx

from tests.support.app_server import ApiClient
from tests.support.dashboard_forms import HTML


class FormParser(HTMLParser):
    """The fields of the composer's form as a browser would send them."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self._inside = False
        self._open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._inside |= given.get("class") == "form compose"
        name, kind = given.get("name", ""), given.get("type", "")
        if tag == "option" and "selected" in given:
            self.fields[self._open] = given["value"]
        if not self._inside or not name or tag == "button" or kind == "file":
            return
        self._open = name
        if kind not in ("checkbox", "radio") or "checked" in given:
            self.fields[name] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        self._inside &= tag != "form"
        self._open = "" if tag in ("textarea", "select") else self._open

    def handle_data(self, data: str) -> None:
        if self._open and self.get_starttag_text().startswith("<textarea"):  # type: ignore[union-attr]
            self.fields[self._open] = data.removeprefix("\n")


def fields_of(page: httpx.Response) -> dict[str, str]:
    parser = FormParser()
    parser.feed(page.text)
    return parser.fields


def open_form(browser: ApiClient, kind: str, item: str) -> dict[str, str]:
    page = browser.get(f"/compose?{kind}={item}", headers=HTML)
    assert page.status_code == 200
    return fields_of(page)
