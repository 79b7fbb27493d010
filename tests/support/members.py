"""Invitation and joining of organization members through the dashboard."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import httpx

from socialpub.store.schema.models import User
from tests.support.app_server import AppServer
from tests.support.dashboard_forms import send_settings_form
from tests.support.sign_in import PASSWORD, csrf_of

PATH = "/settings/members"


CAROL = "carol@example.com"


SCRIPT_NAME = '"><script>alert(1)</script>'


def invite_member(browser: httpx.Client, email: str = CAROL, role: str = "member") -> str:
    """The path of a new invitation's link."""
    answer = send_settings_form(browser, PATH, email=email, role=role)
    assert (answer.status_code, answer.headers["Location"]) == (303, PATH)
    found = re.search(r"http\S+/invited/\w+", browser.get(PATH).text)
    assert found
    return urlsplit(found[0]).path


def join_organization(
    server: AppServer, path: str, password: str = PASSWORD, browser: httpx.Client | None = None
) -> httpx.Response:
    api = browser or server.api()
    return api.post(path, data={"csrf_token": csrf_of(api.get(path)), "password": password})


def joined_browser(server: AppServer, owner: httpx.Client, email: str = CAROL, role: str = "member") -> httpx.Client:
    """The browser of somebody who was invited and came."""
    browser = server.api()
    assert join_organization(server, invite_member(owner, email, role), browser=browser).status_code == 303
    return browser


def member_id(server: AppServer, email: str) -> str:
    (row,) = server.rows(User, email=email)
    return str(row["id"])
