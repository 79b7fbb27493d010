"""Backups under load hold every acknowledged write; a killed backup is all or nothing."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from tests.support.soak.killable_command import FAR_FUTURE, run_killable
from tests.support.soak.soak_world import SoakWorld, configured_count, running_world

pytestmark = pytest.mark.slow
BACKUPS, WRITERS, LEAST = configured_count("backups", 20), 8, 50


class Writing:
    """Clients that schedule posts as fast as they are accepted, and remember each that was."""

    def __init__(self, world: SoakWorld) -> None:
        self.world, self.acknowledged, self._over = world, list[str](), threading.Event()
        self._threads = [threading.Thread(target=self._write) for _ in range(WRITERS)]

    def __enter__(self) -> Writing:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        (account, *_), *_ = self.world.accounts.values()
        body = {"text": "a write", "targets": [{"accountId": account}], "scheduledAt": FAR_FUTURE}
        with self.world.client() as client:
            while not self._over.is_set():
                answer = client.post("/v1/posts", json=body)
                if answer.status_code == 202:
                    self.acknowledged.append(answer.json()["results"][0]["postId"])


def _posts_of(database: Path) -> set[str]:
    with sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True) as found:
        return {row[0] for row in found.execute("SELECT id FROM post")}


def test_every_backup_under_load_holds_what_was_acknowledged_before(tmp_path: Path) -> None:
    with running_world(tmp_path, on=("bluesky",)) as world:
        world.start()
        with Writing(world) as writing:
            for number in range(BACKUPS):
                while len(writing.acknowledged) < LEAST * (number + 1):
                    threading.Event().wait(0.01)
                before = set(writing.acknowledged)
                assert run_killable(world.folder, "backup", f"{number}.zip")[0] == 0
                code, found = run_killable(world.folder, "verify", f"{number}.zip")
                assert (code, found["ok"]) == (0, True)
                place = ["--database", f"back{number}/socialpub.db"]
                assert run_killable(world.folder, "restore", f"{number}.zip", *place)[0] == 0
                lost = before - _posts_of(world.folder / f"back{number}" / "socialpub.db")
                assert not lost
        assert world.stop() == 0


@pytest.mark.parametrize("point", ["backup.mid", "restore.media", "restore.mid"])
def test_a_killed_one_is_all_or_nothing_and_done_again(tmp_path: Path, point: str) -> None:
    with running_world(tmp_path, on=("bluesky",)) as world:
        world.start()
        with world.client() as client:
            picture = (Path(__file__).parents[2] / "socialpub/simulator/page/clip.mp4").read_bytes()
            assert client.post("/v1/media", files={"file": ("a.mp4", picture, "video/mp4")}).status_code == 201
        assert run_killable(world.folder, "backup", "whole.zip")[0] == 0
        if point == "backup.mid":
            assert run_killable(world.folder, "backup", "b.zip", faults=f"{point}=kill")[0] == -9
            assert not (world.folder / "b.zip").exists()
            assert run_killable(world.folder, "backup", "b.zip")[0] == 0
            assert [path.name for path in world.folder.glob(".b.zip*")] == []
        else:
            place = ["--database", "back/socialpub.db"]
            assert run_killable(world.folder, "restore", "whole.zip", *place, faults=f"{point}=kill")[0] == -9
            assert not (world.folder / "back" / "socialpub.db").exists()
            assert run_killable(world.folder, "serve", "--port", "0", *place)[0] == 1
            assert run_killable(world.folder, "restore", "whole.zip", *place)[0] == 0
        assert not list(world.folder.glob("media/.backup*"))
        assert world.stop() == 0
