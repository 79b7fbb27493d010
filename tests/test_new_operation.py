"""A new operation of the API, added in a copy of this checkout: in how many files, and what holds then."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.copied import contents, copy_to, execute, python

SHAPE = '''

class EventInfo(TypedDict):
    """One type of event."""

    type: str
    description: str
    """When it is sent."""


class EventList(TypedDict):
    """Every type of event."""

    data: list[EventInfo]
'''
HANDLER = '''

LIST_EVENTS = Operation(
    "Catalogue",
    "listEvents",
    "Every type of event",
    answers={200: Success(EventList, "The types.", {"data": [{"type": "post.failed", "description": "It failed."}]})},
)


async def list_events(call: Call) -> Reply:
    """GET /v1/event-types."""
    return Reply(EventList(data=event_bodies()))


def event_bodies() -> list[EventInfo]:
    return [{"type": name, "description": text} for name, text in EVENTS.items()]
'''
IMPORTS = """\
from socialpub.domain.core.events import EVENTS
from socialpub.domain.shapes.catalogue import EventInfo, EventList
"""
ROUTE = '    Route(GET, "/v1/event-types", catalogue.list_events, says=catalogue.LIST_EVENTS),\n'
HEALTH = '    Route(GET, "/healthz"'

# By file: what stands there (empty: its end), and what is put before it.
EDITS = {
    "socialpub/domain/shapes/catalogue.py": [("", SHAPE)],
    "socialpub/web/api/catalogue.py": [("from socialpub.domain.core", IMPORTS), ("", HANDLER)],
    "socialpub/web/app.py": [(HEALTH, ROUTE)],
    "tests/web/test_openapi_answers.py": [('"platforms", "rules"', '"event-types", ')],
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy with the operation, as after `make fix`."""
    folder = copy_to(tmp_path_factory.mktemp("operation"))
    before = contents(folder)
    for name, edits in EDITS.items():
        text = (folder / name).read_text(encoding="utf-8")
        for mark, added in edits:
            begin, found, end = text.partition(mark) if mark else (text, "", "")
            assert found == mark, f"{name} has no {mark!r} any more"
            text = begin + added + found + end
        (folder / name).write_text(text, encoding="utf-8")
    python(folder, "ruff", "check", "--fix-only", "--quiet", ".")
    python(folder, "ruff", "format", "--quiet", ".")
    after = contents(folder)
    assert {name for name in after if after[name] != before.get(name)} == set(EDITS), "its four files, and no other"
    return folder


def test_it_takes_four_files_and_is_documented_and_answered_as_documented(copy: Path) -> None:
    assert len(EDITS) <= 4
    answered = "tests/web/test_openapi_answers.py::test_what_succeeds_is_what_the_document_says"
    said = python(copy, "pytest", "-p", "no:cacheprovider", "-vv", "tests/web/test_openapi.py", answered)
    told = "tests/web/test_openapi.py::test_every_operation_has_words_and_an_example_of_each_answer"
    for name in (f"{told}[GET /v1/event-types]", answered):
        assert f"{name} PASSED" in said


@pytest.mark.slow
def test_the_linters_have_nothing_to_say(copy: Path) -> None:
    python(copy, "ruff", "check", ".")
    python(copy, "mypy", "--cache-dir", str(copy / ".mypy_cache"))
    execute([Path(sys.executable).with_name("lint-imports"), "--no-cache"], copy)
