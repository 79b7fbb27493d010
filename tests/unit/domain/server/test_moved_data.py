"""Moves of a data folder (`socialpub move`), and their pause table in docs/running.md."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from socialpub.base.runtime import Runtime, load_vault
from socialpub.base.system import host_identity
from socialpub.commands import cli
from socialpub.domain.background.engine import BackgroundEngine
from socialpub.domain.context.app_context import close_context, open_context
from socialpub.store.engine.locks import StartError
from tests.support import copy_scenarios as happened
from tests.support.copy_scenarios import DataPlace, brisk, cloned, place
from tests.support.publishing_state import readiness

__all__ = ["brisk", "place"]
RUNNING = Path(__file__).parents[4] / "docs" / "running.md"
SAYS = "this database may have been restored or copied: "
REFUSED = "is refused"
DAY = 86_400.0


def command(place: DataPlace, *words: str) -> int:
    """A command in this process: the server is down."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SOCIALPUB_DATABASE__URL", str(place.database))
        patched.chdir(place.home)
        return cli.main([*words])


def refused(place: DataPlace) -> str:
    """Why the server does not start; its port is never opened."""
    settings, server = place.server.settings(0), place.server
    service = open_context(Runtime(settings, load_vault(settings), clock=server.clock, host=server.host))
    try:
        with pytest.raises(StartError) as caught:
            BackgroundEngine(service).start()
    finally:
        close_context(service)
    return str(caught.value)


def handed_over(place: DataPlace) -> None:
    assert command(place, "move") == 0


def moved_on_purpose(place: DataPlace) -> None:
    handed_over(place)
    cloned(place)


def started_where_it_was(place: DataPlace) -> None:
    handed_over(place)


def where_it_was_after_the_new_place_ran(place: DataPlace) -> None:
    handed_over(place)
    old = place.home
    cloned(place)
    assert place.start() is None
    place.server.stop()
    place.server.home = old


def restored_by_us(place: DataPlace) -> None:
    file = place.home.with_name("b.zip")
    assert command(place, "backup", str(file)) == 0
    shutil.rmtree(place.home / "media", ignore_errors=True)
    for path in place.home.glob("socialpub.db*"):
        path.unlink()
    assert command(place, "restore", str(file)) == 0


ROWS: list[tuple[str, Callable[[DataPlace], None], str, str]] = [
    ("`socialpub move`, then the folder copied to another disk, machine or container", moved_on_purpose, "", ""),
    ("the same, started at the old place", started_where_it_was, REFUSED, "was handed over by `socialpub move`"),
    (
        "the same, started at the old place once the new one has run",
        where_it_was_after_the_new_place_ran,
        REFUSED,
        "was handed over by `socialpub move`",
    ),
    ("a restart or a reboot; the folder renamed on its disk, or reached by a link", happened.moved, "", ""),
    ("a new container on the same volume", happened.renumbered_in_a_container, "", ""),
    (
        "the folder copied (`cp -a`, `rsync -a`), or moved to another disk, which is a copy",
        cloned,
        "**paused**",
        "its file is not the one that ran last",
    ),
    (
        "the whole folder carried to another machine, as a disk",
        happened.another_machine,
        "**paused**",
        "it ran last on another machine",
    ),
    (
        "`socialpub restore`, into the same folder or another one",
        restored_by_us,
        "**paused**",
        "what `socialpub restore` says: `paused  restored`",
    ),
    (
        "an older folder put back by `rsync`, `tar`, restic, Borg",
        happened.restored_beside,
        "**paused**",
        "it is older than the mark outside its folder",
    ),
    (
        "the same in a container that is new, with its marks lost",
        happened.restored_without_marks,
        "**paused**",
        "its file is not the one that ran last",
    ),
    (
        "an older `socialpub.db` put back alone (`cp`, `litestream restore`)",
        happened.database_over,
        "**paused**",
        "it is older than instance.state",
    ),
    (
        "the newest `socialpub.db` put back alone (`mv`, `litestream restore`)",
        happened.database_copied,
        "**paused**",
        "its file is not the one that ran last",
    ),
    (
        "`instance.state` put back alone",
        happened.state_restored,
        "**paused**",
        "instance.state was copied or put back",
    ),
    (
        "a snapshot of the volume put back, with the marks outside of it",
        happened.rolled_back,
        "**paused**",
        "it is older than the mark outside its folder",
    ),
    (
        "a snapshot of the volume put back, and the marks with it",
        happened.rolled_back_in_a_container,
        "continues: **this cannot be detected**",
        "",
    ),
]


@pytest.mark.matrix
@pytest.mark.parametrize(("row", "happens", "next_start", "words"), ROWS, ids=[row[1].__name__ for row in ROWS])
def test_each_row_of_the_page_is_so(
    place: DataPlace,
    row: str,
    happens: Callable[[DataPlace], None],
    next_start: str,
    words: str,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    happens(place)
    if next_start == REFUSED:
        assert words in refused(place)
        return
    assert (place.start() == "restored") is (next_start == "**paused**")
    told = [line.partition(SAYS)[2] for line in caplog.messages if SAYS in line]
    if words.startswith("what `socialpub restore` says"):
        assert re.search(r"^paused +restored$", capsys.readouterr().out, re.MULTILINE)
    else:
        assert told == ([words] if words else [])


def test_the_page_has_these_rows_and_no_others() -> None:
    text = RUNNING.read_text(encoding="utf-8")
    table = text[text.index("| What happened | The next start | Its words |") :].partition("\n\n")[0]
    found = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in table.splitlines()[2:]]
    assert [(row, start, words) for row, start, words, *_ in (_three(line) for line in found)] == [
        (row, start or "continues", words) for row, _, start, words in ROWS
    ]


def _three(cells: tuple[str, ...]) -> tuple[str, str, str]:
    row, start, *rest = (cell.strip("| ") for cell in cells)
    return row, start, rest[0] if rest else ""


# --- More of `move` --------------------------------------------------------------------------------------------------


def test_what_was_moved_publishes_once_and_starts_again_and_again(place: DataPlace) -> None:
    moved_on_purpose(place)
    assert place.start() is None
    after = place.alice.api.publish({"text": "after", "targets": [{"accountId": place.alice.bluesky}]})
    assert after.json()["status"] == "published"
    for _ in range(2):
        place.server.stop()
        assert place.start() is None
    assert len(place.server.lab.lab.ledger.posts()) == 2


def test_to_another_machine_with_the_same_path(place: DataPlace) -> None:
    handed_over(place)
    happened.another_machine(place)
    happened.again_from(place.database)
    assert place.start() is None


def test_what_was_handed_over_is_taken_back(
    place: DataPlace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_identity, "identify_host", lambda: place.server.host)
    handed_over(place)
    assert "start it there within 7 days" in capsys.readouterr().out
    for name in ("status", "doctor"):
        assert command(place, name, *(["--offline"] if name == "doctor" else [])) == 1
        told = capsys.readouterr().out
        assert "no server starts on it here" in told
        assert "Start it: socialpub serve" not in told
    assert command(place, "move", "--back") == 0
    command(place, "status")
    assert "Start it: socialpub serve" in capsys.readouterr().out
    assert place.start() is None
    assert readiness(place.alice)["publishing"] == "active"


def test_a_move_counts_for_a_week(place: DataPlace) -> None:
    moved_on_purpose(place)
    place.server.clock.skip(7 * DAY + 3600)
    assert place.start() == "restored"


@pytest.mark.parametrize("days", [8, 400, -8])
def test_no_server_starts_at_the_old_place_however_late(place: DataPlace, days: int) -> None:
    """After a week, or by a wrong clock, it started and published what the new place publishes."""
    handed_over(place)
    place.server.clock.set_ahead(days * DAY)
    assert "was handed over" in refused(place)


def test_a_copy_that_was_put_back_after_the_move_counts_no_second_time(place: DataPlace) -> None:
    """A backup of the moved folder, made before it first ran at its new place."""
    moved_on_purpose(place)
    again = place.home.with_name("backup of the moved one")
    shutil.copytree(place.home, again)
    assert place.start() is None
    place.server.stop()
    place.server.home = again
    assert place.start() == "restored"


def test_a_backup_of_what_was_handed_over_starts_paused(place: DataPlace) -> None:
    handed_over(place)
    restored_by_us(place)
    assert place.start() == "restored"


def test_a_paused_database_stays_paused_where_it_goes(place: DataPlace) -> None:
    cloned(place)
    assert place.start() == "restored"
    place.server.stop()
    handed_over(place)
    target = place.home.with_name("further")
    shutil.copytree(place.home, target)
    assert "was handed over" in refused(place)
    place.server.home = target
    assert place.start() == "restored"
