"""A refused request leaves no reference cycle.

Its body would stay in memory until the garbage collector's next full run.
"""

from __future__ import annotations

import gc
import json
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from socialpub.base.errors import ApiError
from socialpub.domain.posts import post_log
from tests.support.app_server import UNKNOWN_ID, Person
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML, send_form
from tests.support.request_cast import RequestCast
from tests.support.soak.soak_world import wait_for

LARGE = "x" * 300_000  # parsed in a thread, not on the event loop

REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "JSON, on the loop": (400, {"method": "POST", "url": "/v1/posts", "content": b'{"text": '}),
    "JSON, in a thread": (400, {"method": "POST", "url": "/v1/posts", "content": b'{"text": "' + LARGE.encode()}),
    "fields, on the loop": (400, {"method": "POST", "url": "/v1/posts", "json": {"texts": "x"}}),
    "fields, in a thread": (400, {"method": "POST", "url": "/v1/posts", "json": {"texts": LARGE}}),
    "fields of a check": (400, {"method": "POST", "url": "/v1/posts/validate", "json": {"texts": LARGE}}),
    "an account": (
        404,
        {"method": "POST", "url": "/v1/posts", "json": {"text": "x", "targets": [{"accountId": UNKNOWN_ID}]}},
    ),
    "a query": (400, {"method": "GET", "url": "/v1/posts?limit=many"}),
    "a read": (404, {"method": "GET", "url": f"/v1/posts/{UNKNOWN_ID}"}),
    "a write": (404, {"method": "DELETE", "url": f"/v1/posts/{UNKNOWN_ID}"}),
    "a change": (404, {"method": "PATCH", "url": f"/v1/posts/{UNKNOWN_ID}", "json": {"text": "x"}}),
    "a file's bytes": (400, {"method": "POST", "url": "/v1/media", "files": {"file": ("a.png", LARGE.encode())}}),
    "a form": (400, {"method": "POST", "url": "/v1/media", "files": {"wrong": ("a.png", LARGE.encode())}}),
    "a path": (404, {"method": "GET", "url": "/v1/nothing"}),
    "a method": (405, {"method": "PUT", "url": "/v1/posts", "json": {}}),
    "a key": (401, {"method": "GET", "url": "/v1/posts", "headers": {"Authorization": "Bearer wrong"}}),
}


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[ApiError]]]:
    """The errors that are made, while the collector does not run."""
    made: list[weakref.ref[ApiError]] = []
    create = ApiError.__init__

    def noted(error: ApiError, *values: Any, **named: Any) -> None:
        made.append(weakref.ref(error))
        create(error, *values, **named)

    monkeypatch.setattr(ApiError, "__init__", noted)
    gc.disable()
    yield made
    gc.enable()


@pytest.mark.matrix
@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_freed_with_its_response(name: str, alice: Person, errors: list[weakref.ref[ApiError]]) -> None:
    status, request = REFUSED[name]
    response = alice.api.request(**request)
    assert (response.status_code, bool(errors)) == (status, True), json.dumps(response.text[:300])
    assert wait_for(lambda: all(error() is None for error in errors), 60)


@pytest.mark.parametrize("number", range(4))
def test_a_refusal_of_a_page_is_freed_with_its_response(
    number: int, world: RequestCast, errors: list[weakref.ref[ApiError]]
) -> None:
    browser = sign_in(world.server, world.alice.organization)
    errors.clear()
    requests: list[Callable[[], httpx.Response]] = [
        lambda: browser.get(f"/posts/{UNKNOWN_ID}", headers=HTML),
        lambda: send_form(browser, f"/posts/{UNKNOWN_ID}/cancel"),
        lambda: send_form(browser, f"/library/med_{UNKNOWN_ID}/delete"),
        lambda: browser.post("/compose/media", files={"file": ("a.png", LARGE.encode())}),
    ]
    response = requests[number]()
    assert errors, response.status_code
    assert wait_for(lambda: all(error() is None for error in errors), 60)


def test_a_write_that_the_disk_refuses_is_freed_with_its_response(
    alice: Person, errors: list[weakref.ref[ApiError]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(post_log, "find", fail)
    with alice.api.expecting_failure():
        response = alice.api.delete(f"/v1/posts/{UNKNOWN_ID}")
    assert (response.status_code, bool(errors)) == (503, True)
    assert wait_for(lambda: all(error() is None for error in errors), 60)
