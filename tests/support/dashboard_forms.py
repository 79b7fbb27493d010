"""Submission of dashboard forms, and parsers of the resulting pages."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import httpx

from socialpub.domain.identity import signin
from tests.support.app_server import ApiClient, AppServer, Person
from tests.support.post_list import insert_rows
from tests.support.sign_in import EMAIL, PASSWORD, csrf_of

HTML = {"Accept": "text/html"}


LOST = {
    "code": "platform_unavailable",
    "message": "The answer was lost.",
    "rule": "publish.outcome_unknown",
    "platform": "bluesky",
    "remediation": "Look at the account.",
    "docUrl": "http://x/docs/errors/platform_unavailable",
}


REFUSED = LOST | {"code": "platform_rejected", "message": "No <b>way</b>.", "rule": "bluesky.text.max_graphemes"}


def send_form(browser: ApiClient, path: str, **fields: str) -> httpx.Response:
    return browser.post(path, data={"csrf_token": browser.headers["X-CSRF-Token"]} | fields)


def later_time(browser: ApiClient, post: str, way: str = "move", **fields: str) -> httpx.Response:
    return send_form(
        browser, f"/posts/{post}/{way}", **({"day": "2099-05-04", "clock": "15:30", "in_zone": "UTC"} | fields)
    )


def failed_post(server: AppServer, person: Person, error: dict[str, Any], **values: Any) -> str:
    """The id of a post that has failed so."""
    row = {"status": "failed", "error": json.dumps(error), "error_code": error["code"]} | values
    return insert_rows(server, person, row)[0]


XSS = "<img src=x onerror=alert(1)>\"'&</textarea><script>alert(2)</script>{{ 7 * 7 }}"


def follow_notice(browser: ApiClient, answer: httpx.Response) -> str:
    """The page that is seen after a form, with the word that the form left for it."""
    (cookie,) = [value for value in answer.headers.get_list("Set-Cookie") if "socialpub_notice=" in value]
    both = f"{browser.headers['Cookie']}; {cookie.partition(';')[0]}"
    return browser.get(answer.headers["Location"], headers=HTML | {"Cookie": both}).text


PROOF_EXPIRED = signin.REAUTHENTICATED_MS / 1000 + 1


def send_settings_form(browser: httpx.Client, path: str, **fields: str) -> httpx.Response:
    return browser.post(path, data={"csrf_token": csrf_of(browser.get("/settings"))} | fields)


def needs_password(page: httpx.Response) -> bool:
    return 'name="password"' in page.text


def sign_in_at(page: httpx.Response, browser: ApiClient) -> httpx.Response:
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    sent = {name: html.unescape(value) for name, value in fields.items()}
    return browser.post("/login", data=sent | {"email": EMAIL, "password": PASSWORD})


FORM_KEY = "0123456789abcdef" * 2


def send_compose(
    browser: ApiClient, do: str = "send", *, to: str = "/compose", accept: dict[str, str] = HTML, **fields: str
) -> httpx.Response:
    """The form with these fields, whose button `do` is pressed; `to`: the address of another button."""
    given = {"csrf_token": browser.headers["X-CSRF-Token"], "page": "/compose", "key": FORM_KEY, "do": do}
    return browser.post(to, data=given | fields, headers=accept)


def target_fields(*accounts: str) -> dict[str, str]:
    return {f"to.{account}": "yes" for account in accounts}
