"""Ownership of fetched media files by run: sweeps, and takeover after a crash."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from socialpub.domain.background import periodic_tasks
from socialpub.domain.context.app_context import ProcessState
from socialpub.domain.media.batch_cache import BatchMediaCache
from socialpub.domain.media.files import IncomingFile
from tests.support.app_server import AppServer, Person, format_instant
from tests.support.media_files import picture

OTHER = """
import sys
from pathlib import Path
from socialpub.domain.media.run_directory import RunDirectory

root, *batches = sys.argv[1:]
folder = RunDirectory(Path(root), "other")
for batch in batches:
    (folder.make(batch) / "picture").write_bytes(b"of another run")
print("made", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def root(server: AppServer) -> Path:
    return server.home / "fetched"


@pytest.fixture
def other(root: Path, alice: Person, batch: str) -> Iterator[subprocess.Popen[str]]:
    """Another run on the same data directory, with files of a batch that goes on, and of one that has ended."""
    arguments = [sys.executable, "-c", OTHER, str(root), batch, "ended"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "made\n"
        yield process
        process.kill()


@pytest.fixture
def batch(server: AppServer, alice: Person) -> str:
    """A batch that goes on: it is due in an hour."""
    body = {"text": "later", "targets": [{"accountId": alice.bluesky}]}
    answer = alice.api.publish(body | {"scheduledAt": format_instant(server.clock.now_ms() + 3_600_000)})
    return str(answer.json()["id"])


def held(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.name == "picture")


def test_a_sweep_leaves_what_another_run_uses(
    server: AppServer, root: Path, other: subprocess.Popen[str], batch: str
) -> None:
    periodic_tasks.sweep(server.service, server.engine.fetched)
    assert held(root) == sorted([f"run-other/{batch}/picture", "run-other/ended/picture"])


def test_what_a_killed_run_has_left_is_taken_over_where_its_batch_goes_on(
    server: AppServer, root: Path, other: subprocess.Popen[str], batch: str
) -> None:
    other.kill()
    other.wait()
    periodic_tasks.sweep(server.service, server.engine.fetched)
    assert held(root) == [f"run-{server.service.process.run}/{batch}/picture"]
    place, _ = server.engine.fetched.get_inline(batch, "picture")
    assert place.read_bytes() == b"of another run"


def test_a_start_takes_over_what_the_run_before_has_fetched(server: AppServer, root: Path, batch: str) -> None:
    server.stop()
    old = root / "run-ended" / batch
    old.mkdir(parents=True)
    (old / "picture").write_bytes(b"from before")
    server.start()
    assert held(root) == [f"run-{server.service.process.run}/{batch}/picture"]
    server.restart()
    assert held(root) == [f"run-{server.service.process.run}/{batch}/picture"]


def test_two_runs_keep_the_files_of_one_batch_apart(server: AppServer, root: Path, batch: str) -> None:
    another_run = ProcessState(run="another")
    mine, service = server.engine.fetched, dataclasses.replace(server.service, process=another_run)
    others = BatchMediaCache(service)
    for fetched in (mine, others):
        with IncomingFile(server.home / "arriving") as arriving:
            arriving.write(picture())
            arriving.finish()
            fetched.add_inline(batch, {"picture": arriving})
    assert len(held(root)) == 2
    mine.adopt()
    mine.drop(batch)
    assert held(root) == [f"run-{service.process.run}/{batch}/picture"]
    others.close()
    mine.adopt()
    assert held(root) == [f"run-{server.service.process.run}/{batch}/picture"]
    mine.drop(batch)
    assert list(root.iterdir()) == []
