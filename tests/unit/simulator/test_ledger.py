"""Ledger of the simulator: append-only, thread-safe, readable as a file."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from socialpub.simulator.ledger import Ledger, Publication, PublishedMedia
from tests.support.fixed_clock import NOON, FixedClock


def publication(
    platform: str = "bluesky", account: str = "alice", kind: str = "post", text: str = "hello"
) -> Publication:
    return Publication(platform, account, kind, remote_id=f"{account}/1", text=text)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(FixedClock())


def test_entries_are_numbered_and_dated(ledger: Ledger) -> None:
    first, second = ledger.write(publication()), ledger.write(publication(text="again"))
    assert [(entry.n, entry.at_ms, entry.text) for entry in (first, second)] == [(1, NOON, "hello"), (2, NOON, "again")]
    assert ledger.entries() == [first, second]


def test_an_entry_is_json_with_everything_in_it(ledger: Ledger) -> None:
    medium = PublishedMedia("ab", 2, "image/png", "a dot")
    entry = ledger.write(
        Publication("bluesky", "alice", "post", "id", "https://a", "hi", media=(medium,), request={"a": 1})
    )
    assert json.loads(json.dumps(entry.body())) == {
        "n": 1,
        "at_ms": NOON,
        "platform": "bluesky",
        "account": "alice",
        "kind": "post",
        "remote_id": "id",
        "url": "https://a",
        "text": "hi",
        "media": [{"sha256": "ab", "size": 2, "type": "image/png", "alt": "a dot"}],
        "request": {"a": 1},
    }


@pytest.mark.parametrize(
    "platform, account, since, expected",
    [
        (None, None, 0, [1, 2, 3]),
        ("bluesky", None, 0, [1, 3]),
        (None, "bob", 0, [2, 3]),
        ("bluesky", "bob", 0, [3]),
        (None, None, 2, [3]),
        ("bluesky", None, 1, [3]),
        (None, None, 3, []),
        (None, None, -5, [1, 2, 3]),
    ],
)
def test_entries_can_be_narrowed(
    ledger: Ledger, platform: str | None, account: str | None, since: int, expected: list[int]
) -> None:
    for made in (publication(), publication("x", "bob"), publication(account="bob")):
        ledger.write(made)
    assert [entry.n for entry in ledger.entries(platform, account, since)] == expected


def test_updates_and_deletions_are_recorded_and_are_no_posts(ledger: Ledger) -> None:
    for kind in ("post", "update", "comment", "delete", "threadgate"):
        ledger.write(publication(kind=kind))
    assert [entry.kind for entry in ledger.posts()] == ["post", "comment"]


def test_threads_never_share_a_number(ledger: Ledger) -> None:
    threads = [threading.Thread(target=lambda: [ledger.write(publication()) for _ in range(100)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [entry.n for entry in ledger.entries()] == list(range(1, 801))


def test_waiting_ends_with_the_entry_that_is_waited_for(ledger: Ledger) -> None:
    threading.Thread(target=ledger.write, args=(publication(),)).start()
    assert ledger.wait(1, timeout=60)
    assert not ledger.wait(2, timeout=0)


def test_a_file_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        Ledger(FixedClock(), tmp_path / "missing" / "ledger.jsonl")


def test_file_has_a_line_for_each_entry_and_survives_clearing(tmp_path: Path) -> None:
    file = tmp_path / "ledger.jsonl"
    ledger = Ledger(FixedClock(), file)
    first = ledger.write(publication(text="zwei\nZeilen, äöü"))
    assert [json.loads(line)["text"] for line in file.read_text("utf-8").splitlines()] == [first.text]
    ledger.clear()
    ledger.write(publication())
    assert (len(ledger.entries()), len(file.read_text("utf-8").splitlines())) == (1, 2)


def test_a_line_that_the_system_takes_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, write = tmp_path / "ledger.jsonl", os.write
    ledger = Ledger(FixedClock(), file)
    monkeypatch.setattr(os, "write", lambda into, line: write(into, line[:7]))
    ledger.write(publication())
    monkeypatch.undo()
    assert [json.loads(line)["text"] for line in file.read_text("utf-8").splitlines()] == ["hello"]


def test_the_file_is_closed_with_the_ledger(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    ledger = Ledger(FixedClock(), tmp_path / "ledger.jsonl")
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del ledger
    assert len(os.listdir("/proc/self/fd")) == before
