"""Every operation of openapi.json, with every scope, for every kind of account.

A key without the scope is refused alike whatever it names, before its body is read. A key with it finds what is its
own, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import UNKNOWN_ID, error_of, unchanged
from tests.support.generated_calls import KeyedOperation
from tests.support.scoped_cast import (
    MAKERS,
    NAMED,
    OPERATIONS,
    SCOPES,
    ScopedCast,
    check_planning,
    generate,
    running_cast,
)

CONTAINED = {"posts:write": {"posts:plan", "posts:read"}, "posts:plan": {"posts:read"}}
KINDS = ("own", "foreign", "listed", "unlisted")
ORGANIZATION_WIDE = ("media", "slots", "profiles", "me")  # the same for every key of the organization


def allows(scope: str, needed: str | None) -> bool:
    return needed in (None, scope, *CONTAINED.get(scope, ()))


@pytest.fixture(scope="module")
def cast(tmp_path_factory: pytest.TempPathFactory, lab_thread: SimulatorThread) -> Iterator[ScopedCast]:
    with running_cast(tmp_path_factory.mktemp("scopes"), lab_thread) as cast:
        yield cast


def shape(answer: httpx.Response, id_: str) -> tuple[int, str]:
    """What a caller can see of a refusal, without the id that it named."""
    error = error_of(answer) | {"requestId": ""}
    text = str(sorted(error.items()))
    return answer.status_code, text.replace(id_, "<id>") if id_ else text


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_key_without_the_scope_is_refused_alike_whatever_it_names(
    cast: ScopedCast, operation: KeyedOperation
) -> None:
    named = {kind: cast.make(operation.resource, kind) if "{id}" in operation.path else "" for kind in KINDS}
    with unchanged(cast.server):
        for scope in SCOPES:
            if allows(scope, operation.scope):
                continue
            asked = [cast.send(operation, kind, scope, named[kind]) for kind in KINDS]
            asked += [cast.send(operation, "own", scope, id_) for id_ in (UNKNOWN_ID, "nonsense")]
            api, path = cast.callers["own"][scope].api, re.sub(r"\{\w+\}", named["own"], operation.path)
            asked += [api.request(operation.method, f"{path}?no=such", content=content) for content in (b"{", b"")]
            assert len({shape(answer, "") for answer in asked}) == 1, scope
            error = error_of(asked[0])
            assert (asked[0].status_code, error["code"], error["rule"]) == (403, "unauthorized", "api_key.scope")
            assert error["platformResponse"] == {"needed": operation.scope, "has": [scope]}


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_key_with_the_scope_finds_its_own_and_nothing_else(cast: ScopedCast, operation: KeyedOperation) -> None:
    for scope in SCOPES:
        for kind in KINDS if allows(scope, operation.scope) else ():
            id_ = cast.make(operation.resource, kind) if "{id}" in operation.path else ""
            answer = cast.send(operation, kind, scope, id_)
            shown = f"{scope}, {kind}: {answer.status_code} {answer.text[:300]}"
            is_wide = kind == "unlisted" and operation.resource in ORGANIZATION_WIDE
            names = id_ or re.search("accountId|profileId", str(operation.bodies[:1]))
            if kind in ("own", "listed") or is_wide or not names:
                assert answer.status_code not in (401, 403, 404), shown
            else:
                assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found"), shown
                if id_:
                    assert shape(answer, id_) == shape(cast.send(operation, kind, scope, UNKNOWN_ID), UNKNOWN_ID)
            if kind in ("listed", "unlisted") and answer.is_success and not is_wide:
                assert cast.second not in answer.text, shown
            assert answer.is_error or cast.charlie.bluesky not in answer.text, shown


def test_every_thing_with_an_id_can_be_made_here() -> None:
    """A new resource that keys reach needs a line in MAKERS."""
    assert set(MAKERS) >= NAMED


# --- A planning key ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_calls_with_a_planning_key_publish_nothing(cast: ScopedCast) -> None:
    check_planning(cast, 150, seed=32)


@pytest.mark.slow
def test_the_same_calls_with_a_whole_key_do_publish(cast: ScopedCast) -> None:
    """So that the test above could fail."""
    before = len(cast.server.lab.lab.ledger.entries())
    generate(cast, cast.alice, 150, seed=32)
    assert len(cast.server.lab.lab.ledger.entries()) > before
