"""Connector behavior on JSON of any shape, at every call that a post takes."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from socialpub.base.errors import ApiError
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import Absent
from tests.support.platforms.post_kinds import KINDS, KindCase

VALUES: tuple[Any, ...] = (None, [], {}, "", "x", 0, -1, 1.5, True, [None], [[]], {"a": None}, 10**30)
ERRORS: tuple[Any, ...] = (
    *VALUES,
    {"error": None},
    {"error": []},
    {"error": "x"},
    {"error": {"code": {}, "message": []}},
    {"error": {"code": 190, "error_subcode": [], "error_data": [], "message": None}},
    {"errors": [None, 1, "x", {"message": None, "type": []}], "type": None, "title": {}, "detail": []},
    {"message": {"a": 1}, "code": [], "errorDetails": {"inputErrors": [None, {"input": [], "code": {}}]}},
    {"message": None, "message_detail": [], "code": None},
    {"debug_info": []},
    {"debug_info": {"message": [], "retriable": "x"}},
)
STATUSES = (400, 401, 404, 429, 500)


def list_changed(value: Any) -> Iterator[Any]:
    """Yield a body with each of its values replaced, or left out."""
    parts = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in parts:
        if isinstance(value, dict):
            yield {name: each for name, each in value.items() if name != key}
        for changed in (*VALUES, *list_changed(inner)):
            made = value.copy()
            made[key] = changed
            yield made


def find_fault(case: KindCase) -> str | None:
    """Publish a post with the change; return how it ended, if it should not."""
    before = len(case.simulator.lab.ledger.entries(case.name))
    try:
        outcome = case.publish()
    except Exception:  # noqa: BLE001 - any other error than an ApiError
        return traceback.format_exc(limit=-1)
    is_there = len(case.simulator.lab.ledger.entries(case.name)) > before
    return "it is there, but absent" if is_there and isinstance(outcome, Absent) else None


def list_responses(reply: UpstreamResponse) -> Iterator[tuple[int, Any]]:
    """Yield the changes of a response, as status and body."""
    yield from itertools.product(STATUSES, ERRORS)
    yield from ((reply.status_code, body) for body in (*VALUES, *list_changed(reply.record())))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_no_shape_of_a_response_breaks_a_post(make_case: Callable[[str, str], KindCase], name: str, kind: str) -> None:
    case = make_case(name, kind)
    assert not isinstance(case.publish(), ApiError | Absent)
    shapes = {}  # of the calls, the last of each
    for place, reply in enumerate(case.client.replies):
        shapes[reply.request.method, reply.status_code, tuple(reply.record())] = (place, reply)
    faults = {}
    for case.client.place, reply in shapes.values():
        for case.client.status, case.client.body in list_responses(reply):
            if fault := find_fault(case):
                said = f"{reply.request.method} {reply.request.url}: {case.client.status} {case.client.body}"
                faults.setdefault(fault, said)
    assert faults == {}
