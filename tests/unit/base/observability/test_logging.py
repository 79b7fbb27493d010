"""Asynchronous log writer: order, bounded queue, dropped-line count, JSON format."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from socialpub.base.observability import log_handler, redaction
from socialpub.base.observability.log_handler import BackgroundHandler as Handler


class Reader(io.StringIO):
    """Standard error whose reader takes nothing while it is `held`, and is gone while it is `broken`."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on, self.is_writing = threading.Event(), threading.Event()
        self.may_go_on.set()
        self.broken = False
        self.writers: set[str] = set()
        self.writes = 0

    def hold(self) -> None:
        self.may_go_on.clear()

    def write(self, text: str) -> int:
        self.writers.add(threading.current_thread().name)
        self.writes += 1
        self.is_writing.set()
        assert self.may_go_on.wait(30)
        if self.broken:
            raise BrokenPipeError
        return super().write(text)

    @property
    def lines(self) -> list[str]:
        return self.getvalue().splitlines()


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def behind(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> Iterator[Handler]:
    monkeypatch.setattr(log_handler, "FLUSH_SECONDS", 60.0)  # a busy machine may take longer than three
    handler = Handler(reader)
    yield handler
    reader.may_go_on.set()
    handler.close()


def say(behind: Handler, text: str, *arguments: object, level: int = logging.INFO) -> None:
    behind.handle(logging.LogRecord("a", level, __file__, 1, text, arguments, None))


def hold(behind: Handler, reader: Reader) -> None:
    """The reader takes nothing from here on; the line `held` is what it is given first."""
    reader.hold()
    reader.is_writing.clear()
    say(behind, "held")
    assert reader.is_writing.wait(30)


def test_lines_are_written_in_order_by_a_thread_of_the_log(behind: Handler, reader: Reader) -> None:
    for number in range(1000):
        say(behind, "line %d", number)
    behind.flush()
    assert reader.lines == [f"line {number}" for number in range(1000)]
    assert len(reader.writers) == 1
    assert threading.current_thread().name not in reader.writers


def test_lines_gather_for_a_moment_and_the_end_does_not_wait_for_it(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_handler, "GATHER_SECONDS", 3600.0)
    behind = Handler(reader)
    for number in range(50):
        say(behind, "line %d", number)
    assert not reader.is_writing.wait(0.2)
    behind.close()
    assert reader.lines == [f"line {number}" for number in range(50)]
    assert reader.writes <= 2, "the first line may have been taken before the others came"


def test_whoever_speaks_does_not_wait_for_a_reader_who_takes_nothing(behind: Handler, reader: Reader) -> None:
    hold(behind, reader)
    for number in range(log_handler.QUEUE_MAX + 7):
        say(behind, "line %d", number)
    assert reader.lines == []
    reader.may_go_on.set()
    behind.flush()
    lost = log_handler.DROPPED_MESSAGE % 7
    assert [line for line in reader.lines if line != lost] == [
        "held",
        *(f"line {n}" for n in range(log_handler.QUEUE_MAX)),
    ]
    assert reader.lines.count(lost) == 1


def test_places_are_kept_for_warnings_and_they_too_have_an_end(behind: Handler, reader: Reader) -> None:
    hold(behind, reader)
    for _ in range(log_handler.QUEUE_MAX + 1):
        say(behind, "line")
    for _ in range(log_handler.QUEUE_RESERVE + 1):
        say(behind, "bad", level=logging.ERROR)
    reader.may_go_on.set()
    behind.flush()
    counts = (
        reader.lines.count("line"),
        reader.lines.count("bad"),
        reader.lines.count(log_handler.DROPPED_MESSAGE % 2),
    )
    assert counts == (log_handler.QUEUE_MAX, log_handler.QUEUE_RESERVE, 1)


def test_lines_that_cannot_be_written_are_counted_and_told_when_one_can(behind: Handler, reader: Reader) -> None:
    reader.broken = True
    for _ in range(3):
        say(behind, "lost")
        behind.flush()
    reader.broken = False
    say(behind, "seen")
    behind.flush()
    assert reader.lines == ["seen", log_handler.DROPPED_MESSAGE % 3]


def test_the_end_writes_what_is_left_and_what_is_said_after_it(behind: Handler, reader: Reader) -> None:
    for number in range(500):
        say(behind, "line %d", number)
    behind.close()
    assert len(reader.lines) == 500
    say(behind, "late")
    assert reader.lines[-1] == "late"


def test_the_end_does_not_wait_for_ever(behind: Handler, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_handler, "FLUSH_SECONDS", 0.0)
    hold(behind, reader)
    behind.close()
    say(behind, "late")
    assert reader.lines == []


def test_a_line_says_what_was_so_when_it_was_said(behind: Handler, reader: Reader) -> None:
    hold(behind, reader)
    names = ["a"]
    say(behind, "names %s", names)
    names.append("b")
    reader.may_go_on.set()
    behind.flush()
    assert reader.lines == ["held", "names ['a']"]


def test_an_error_brings_its_traceback_and_is_not_held_by_the_log(behind: Handler, reader: Reader) -> None:
    try:
        raise ValueError("wrong")
    except ValueError as error:
        record = logging.LogRecord(
            "a", logging.ERROR, __file__, 1, "failed", (), (ValueError, error, error.__traceback__)
        )
    assert behind.prepare(record).exc_info is None
    behind.handle(record)
    behind.flush()
    assert (reader.lines[0], reader.lines[1], reader.lines[-1]) == (
        "failed",
        "Traceback (most recent call last):",
        "ValueError: wrong",
    )


def test_a_line_that_cannot_be_made_stops_no_other(
    behind: Handler, reader: Reader, capsys: pytest.CaptureFixture[str]
) -> None:
    say(behind, "%d", "no number")
    say(behind, "next")
    behind.flush()
    assert reader.lines == ["next"]
    assert "no number" in capsys.readouterr().err


# --- For programs --------------------------------------------------------------------------------------------------


def as_json(record: logging.LogRecord) -> dict[str, Any]:
    line = redaction.JsonLogFormatter().format(record)
    assert "\n" not in line
    return dict(json.loads(line))


def test_json_log_line_has_its_arguments_as_fields_and_utc_time() -> None:
    record = logging.LogRecord("socialpub.posts", logging.INFO, "", 0, "post %s %s", ("p1", "published"), None)
    record.names, record.created, record.msecs = ("post", "outcome"), 1_700_000_000.5, 500
    assert as_json(record) == {
        "time": "2023-11-14T22:13:20.500Z",
        "level": "info",
        "logger": "socialpub.posts",
        "message": "post p1 published",
        "post": "p1",
        "outcome": "published",
    }


def test_a_line_for_programs_shows_no_secret_and_stays_one_line() -> None:
    hidden = "svc_live_" + "a" * 32
    record = logging.LogRecord("x", logging.ERROR, "", 0, "said %s\nand more", (f"Bearer {hidden}",), None)
    record.names = ("what",)
    told = as_json(record)
    assert hidden not in json.dumps(told)
    assert told["what"] != ""


def test_a_traceback_is_a_field() -> None:
    try:
        raise ValueError("svc_live_" + "b" * 32)
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "it broke", None, sys.exc_info())
    told = as_json(record)
    assert told["exception"].startswith("Traceback")
    assert "b" * 32 not in told["exception"]
