"""Commands over the API on a terminal: questions, keys that are not shown, Ctrl-C."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from socialpub_client.commands import exit_codes
from tests.clients.conftest import PROGRAM, ClientWorld
from tests.support.media_files import picture
from tests.support.media_uploads import wait_until
from tests.support.ports import unused_address
from tests.support.terminals import CTRL_D, Terminal


@pytest.fixture
def servers(tmp_path: Path) -> Path:
    """The file with the stored servers."""
    return tmp_path / "socialpub" / "servers.toml"


@pytest.mark.slow
def test_login_asks_for_the_key_and_does_not_show_it(
    world: ClientWorld, environment: dict[str, str], servers: Path
) -> None:
    with Terminal([PROGRAM, "login", "main", "--json"], environment) as terminal:
        terminal.wait_for("API key: ")
        wait_until(lambda: not terminal.has_echo(), 60)
        terminal.type(f"{world.alice.key}\n")
        assert terminal.end() == exit_codes.DONE, terminal.shown
        assert terminal.is_as_before()
    assert world.alice.key in servers.read_text()
    assert world.alice.key not in terminal.shown
    assert world.alice.key_id in terminal.shown


@pytest.mark.parametrize("typed", ["", "svc", CTRL_D])
def test_a_login_that_is_interrupted_stores_nothing(environment: dict[str, str], servers: Path, typed: str) -> None:
    with Terminal([PROGRAM, "login"], environment) as terminal:
        terminal.wait_for("API key: ")
        wait_until(lambda: not terminal.has_echo(), 60)
        terminal.type(typed)
        assert (terminal.end() if typed == CTRL_D else terminal.interrupt()) == exit_codes.INTERRUPTED, terminal.shown
        assert terminal.is_as_before()
    assert "Traceback" not in terminal.shown
    assert not servers.exists()


def test_login_does_not_ask_where_the_question_would_not_be_seen(
    environment: dict[str, str], servers: Path, tmp_path: Path
) -> None:
    errors = tmp_path / "errors"
    with Terminal([PROGRAM, "login"], environment, f"2>{errors}") as terminal:
        assert terminal.end() == exit_codes.USAGE
    assert "there is no terminal to ask at" in errors.read_text()
    assert (terminal.shown, servers.exists()) == ("", False)


@pytest.mark.slow
def test_a_piped_key_is_read_without_a_question(world: ClientWorld, environment: dict[str, str], servers: Path) -> None:
    (servers.parent.parent / "key").write_text(f"{world.alice.key}\n")
    with Terminal([PROGRAM, "login"], environment, f"<{servers.parent.parent / 'key'}") as terminal:
        assert terminal.end() == exit_codes.DONE, terminal.shown
    assert "API key" not in terminal.shown
    assert world.alice.key in servers.read_text()


@pytest.mark.slow
def test_followed_events_come_until_ctrl_c_which_tells_the_cursor(
    world: ClientWorld, environment: dict[str, str], tmp_path: Path, text: Callable[[], str]
) -> None:
    kept, sp = tmp_path / "cursor", world.plain()
    texts = [text() for _ in range(3)]

    def publish(said: str) -> str:
        return sp.posts.publish(said, to="bluesky", at="2027-12-01T09:30:00Z", wait=0).id

    publish(texts[0])
    kept.write_text([*sp.events.list()][-1].cursor)
    earlier = publish(texts[1])
    line = [PROGRAM, "events", "--follow", "--types", "post.queued", "--cursor-file", kept]
    with Terminal(line, environment) as terminal:
        terminal.wait_for(earlier)
        later = publish(texts[2])
        terminal.wait_for(later, whole_line=True)  # Ctrl-C makes a terminal forget what it has not shown yet
        assert terminal.interrupt() == exit_codes.INTERRUPTED, terminal.shown
        assert terminal.is_as_before()
    assert "Traceback" not in terminal.shown
    told = re.search(r"cursor: (\S+)", terminal.shown)
    assert told
    shown = [json.loads(row)["data"] for row in terminal.shown.splitlines() if row.startswith("{")]
    assert [row["batchId"] for row in shown] == [earlier, later]
    for cursor in (told[1], kept.read_text().strip()):  # Ctrl-C may come between the two
        rest = [event.raw["data"]["batchId"] for event in sp.events.list(after=cursor)]
        assert set(rest) <= {later}  # a cursor is kept after its row: no event is lost


@pytest.mark.slow
def test_a_cursor_is_kept_before_the_first_event(
    world: ClientWorld, environment: dict[str, str], tmp_path: Path, text: Callable[[], str]
) -> None:
    kept = tmp_path / "cursor"
    line = [PROGRAM, "events", "--follow", "--types", "post.queued", "--cursor-file", kept]
    with Terminal(line, environment) as terminal:
        wait_until(kept.exists, 60)
        assert terminal.interrupt() == exit_codes.INTERRUPTED, terminal.shown
    meanwhile = world.plain().posts.publish(text(), to="bluesky", at="2027-12-01T09:30:00Z", wait=0).id
    with Terminal(line, environment) as terminal:
        terminal.wait_for(meanwhile)
        assert terminal.interrupt() == exit_codes.INTERRUPTED, terminal.shown


@pytest.mark.slow
def test_who_follows_is_told_that_the_server_is_away(environment: dict[str, str]) -> None:
    with unused_address() as url, Terminal([PROGRAM, "events", "--follow", "--url", url], environment) as terminal:
        terminal.wait_for("Trying again.")
        assert terminal.interrupt() == exit_codes.INTERRUPTED, terminal.shown


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["n", "y"])
def test_a_deletion_asks_and_does_what_was_answered(
    world: ClientWorld, environment: dict[str, str], tmp_path: Path, answer: str
) -> None:
    image = tmp_path / f"{answer}.png"
    image.write_bytes(picture("PNG", (17, 3 + ord(answer))))
    with Terminal([PROGRAM, "media", "upload", image], environment) as terminal:
        assert terminal.end() == exit_codes.DONE, terminal.shown
    assert f"{image.name}  100 %" in terminal.shown
    media = terminal.shown.split()[-1]
    with Terminal([PROGRAM, "media", "delete", media], environment) as terminal:
        terminal.wait_for(f"Delete {media}? [y/N]: ")
        terminal.type(f"{answer}\n")
        assert terminal.end() == {"y": exit_codes.DONE, "n": exit_codes.INTERRUPTED}[answer], terminal.shown
    left = [file.id for file in world.plain().media.list()]
    assert (media in left) == (answer == "n")


@pytest.mark.slow
def test_where_output_is_no_terminal_nothing_but_the_result_is_shown(
    environment: dict[str, str], tmp_path: Path
) -> None:
    image, errors = tmp_path / "door.png", tmp_path / "errors"
    image.write_bytes(picture("PNG", (5, 29)))
    with Terminal([PROGRAM, "media", "upload", image], environment, f"2>{errors}") as terminal:
        assert terminal.end() == exit_codes.DONE
    assert errors.read_text() == ""
    assert terminal.shown.startswith("med_")
    assert len(terminal.shown.split()) == 1
