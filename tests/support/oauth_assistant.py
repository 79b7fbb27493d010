"""Assistant that signs in by OAuth, and the consent of a user; any part can be wrong."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from tests.support.app_server import AppServer

ENDPOINT = "https://social.example.org/mcp"
BACK = "https://assistant.example.com/back?from=socialpub"
VERIFIER = "verifier-" * 6
PLAN = ("posts:plan", "media", "accounts:read")
SETTINGS = {"mcp": {"oauth": True, "url": ENDPOINT}, "limits": {"failed_logins": 10_000}}


def challenge_of(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def fields_of(page: httpx.Response) -> dict[str, str]:
    """The fields of a page's form as a browser would send them untouched."""
    form = re.search(r'<form class="form".*?</form>', page.text, re.DOTALL)
    assert form, page.text
    found = dict(re.findall(r'<input type="hidden" name="([\w.]+)" value="([^"]*)"', form[0]))
    ticked = re.findall(r'name="((?:scope|account)\.[^"]+)" value="yes" checked', form[0])
    chosen = re.findall(r'<select id="[^"]*" name="(\w+)".*?<option value="([^"]*)" selected', form[0], re.DOTALL)
    return {name: html.unescape(value) for name, value in found.items()} | dict.fromkeys(ticked, "yes") | dict(chosen)


def answer_of(response: httpx.Response) -> dict[str, str]:
    """What the browser brings to the client."""
    assert response.status_code == 303, response.text
    return {name: values[0] for name, values in parse_qs(urlsplit(response.headers["Location"]).query).items()}


@dataclass
class Assistant:
    """A client without a browser. Answers are not checked for the form of the API's errors: they are OAuth's."""

    server: AppServer
    name: str = "Helper"
    redirect_uri: str = BACK
    client_id: str = field(init=False)

    def __post_init__(self) -> None:
        made = self.register()
        assert made.status_code == 201, made.text
        self.client_id = made.json()["client_id"]

    def post(self, path: str, **given: Any) -> httpx.Response:
        return httpx.post(self.server.url + path, trust_env=False, verify=False, **given)

    def register(self, **given: Any) -> httpx.Response:
        asked = {"client_name": self.name, "redirect_uris": [self.redirect_uri]}
        return self.post("/oauth/register", json=asked | given)

    def address(self, **given: str | None) -> str:
        """The address at which a person is asked; None leaves a parameter out."""
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": "state & more",
            "code_challenge": challenge_of(VERIFIER),
            "code_challenge_method": "S256",
            "resource": ENDPOINT,
        }
        return "/oauth/authorize?" + urlencode({k: v for k, v in (asked | given).items() if v is not None})

    def code(self, browser: httpx.Client, **chosen: str) -> str:
        """The code that comes of a person's consent."""
        return answer_of(decide(browser, self.address(), **chosen))["code"]

    def exchange(self, code: str, **given: str) -> httpx.Response:
        asked = {
            "grant_type": "authorization_code",
            "client_id": self.client_id,
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": VERIFIER,
        }
        return self.post("/oauth/token", data=asked | given)


def decide(browser: httpx.Client, address: str, decision: str = "approve", **chosen: str) -> httpx.Response:
    """A person opens the page, changes some fields and presses a button."""
    page = browser.get(address)
    assert page.status_code == 200, page.text
    sent = fields_of(page) | chosen | {"decision": decision}
    return browser.post("/oauth/authorize", data={name: value for name, value in sent.items() if value})
