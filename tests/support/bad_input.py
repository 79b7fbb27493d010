"""Checks on each request of the bad-input corpus.

Each is refused with the error envelope (checked by `ApiClient`), writes nothing, calls no platform, and gets the same
answer when repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import httpx

from tests.support.app_server import unchanged
from tests.support.request_cast import RequestCast

FUTURE = "2100-01-01T00:00:00Z"
Case: TypeAlias = tuple[Any, Callable[[], httpx.Response]]  # what a failure calls it, and the request


def _told(answer: httpx.Response) -> tuple[int, Any]:
    """An answer without what is of this one request only."""
    body = answer.json()
    if "error" in body:
        body["error"].pop("requestId")
    return answer.status_code, body


def check_refused(
    world: RequestCast, cases: list[tuple[Any, Callable[[], httpx.Response]]], *statuses: int
) -> list[httpx.Response]:
    """The answers to requests of which each must be refused, twice alike, and leave everything as it is."""
    answers = []
    with unchanged(world.server):
        for name, send in cases:
            first, second = send(), send()
            assert first.status_code in statuses, (name, first.text)
            assert _told(first) == _told(second), name
            answers.append(first)
    return answers
