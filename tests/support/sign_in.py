"""Users, and their sign-in through the dashboard pages."""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx

from socialpub.domain.access.actor import build_operator
from socialpub.domain.identity import users
from tests.support.app_server import AppServer, Person

EMAIL, PASSWORD = "alice@example.com", "correct horse battery"


def add_user(server: AppServer, person: Person, email: str, role: str, password: str = PASSWORD) -> None:
    hash_ = users.hash_password(password)
    server.service.write(
        lambda tx: users.create(
            tx, build_operator(server.service, "test").within(person.organization), email, role, hash_
        )
    ).result()


def csrf_of(page: httpx.Response) -> str:
    found = re.search(r'name="csrf_token" value="([0-9a-f]{64})"', page.text)
    assert found, page.text
    return found[1]


def sign_in(api: httpx.Client, email: str = EMAIL, password: str = PASSWORD, **fields: str) -> httpx.Response:
    token = csrf_of(api.get("/login"))
    return api.post("/login", data={"csrf_token": token, "email": email, "password": password} | fields)


def signed_in(server: AppServer, email: str = EMAIL) -> httpx.Client:
    api = server.api()
    assert sign_in(api, email).status_code == 303
    return api


def at_once(server: AppServer, password: str, times: int) -> Counter[int]:
    """How often which status came back, of browsers that sign in at the same moment."""
    browsers = [server.api() for _ in range(times)]
    forms = [{"csrf_token": csrf_of(api.get("/login")), "email": EMAIL, "password": password} for api in browsers]
    with ThreadPoolExecutor(times) as many:
        return Counter(many.map(lambda api, form: api.post("/login", data=form).status_code, browsers, forms))
