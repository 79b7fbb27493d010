"""Messages of commands: sentences that agree in `status`, `doctor` and the demo."""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from socialpub.domain.delivery.notifications import message_texts
from socialpub.domain.operations import server_status
from socialpub.domain.schemas.notifications import PAUSED_TYPE
from socialpub.domain.server import instance
from tests.support.command_runner import (
    TOKENS,
    AskCommand,
    CommandProcess,
    CommandResult,
    RunCommand,
    read_address,
    run_command,
)

REASONS = (None, instance.RESTORED, instance.CLOCK, instance.DAMAGED)
STATUSES = ("active", "expiring", "revoked")
COMMAND = re.compile(r"socialpub resume(?: --[a-z-]+)*")


@pytest.fixture
def data(ask: AskCommand, folder: Path) -> Path:
    """The folder of a database with an account."""
    org = ask("org", "create", "Acme")["id"]
    profile = ask("profile", "list", "--org", org)[0]["id"]
    where = ("--profile", profile, "--platform", "threads", "--platform-account-id", "7", "--display-name", "Acme")
    ask("account", "add", *where, stdin=json.dumps(TOKENS))
    return folder


def set_to(folder: Path, reason: str | None, status: str = "active") -> None:
    with closing(sqlite3.connect(folder / "socialpub.db")) as connection, connection:
        connection.execute(
            "INSERT OR IGNORE INTO instance (id, epoch, beat, uid, mark, seen_at) VALUES (1, 1, 1, '', '', 0)"
        )
        connection.execute("UPDATE instance SET paused = ?", (reason,))
        connection.execute("UPDATE account SET status = ?", (status,))


def agree(said: CommandResult, looked: CommandResult) -> list[str]:
    """The problems that both name: what `status` says needs attention fails in `doctor`, in the same words."""
    named = {server_status.SERVER, server_status.PUBLISHING, server_status.POSTS, server_status.ACCOUNTS}
    failing = [check["message"] for check in looked.json["checks"] if not check["ok"]]
    here = [check["message"] for check in looked.json["checks"] if check["name"] in named and not check["ok"]]
    assert said.json["problems"] == here
    assert (said.code, said.json["ok"]) == (int(bool(here)), not here)
    assert (looked.code, looked.json["ok"]) == (int(bool(failing)), not failing)
    return here


@pytest.mark.matrix
@pytest.mark.parametrize(("reason", "status"), list(itertools.product(REASONS, STATUSES)))
def test_status_and_doctor_say_the_same_of_a_server_that_does_not_run(
    run: RunCommand, data: Path, reason: str | None, status: str
) -> None:
    set_to(data, reason, status)
    problems = agree(run("status", "--json"), run("doctor", "--offline", "--json"))
    assert len(problems) == 1 + (reason is not None) + (status != "active")


@pytest.mark.slow
def test_status_and_doctor_say_the_same_of_one_that_runs(start: Callable[..., CommandProcess], data: Path) -> None:
    server = start("serve", "--port", "0")
    read_address(server)
    agree(run_command("status", "--json", cwd=data), run_command("doctor", "--offline", "--json", cwd=data))
    assert server.stop() == 0


def test_a_server_with_other_settings_is_not_called_stopped(start: Callable[..., CommandProcess], data: Path) -> None:
    """Its port is another one than these settings name, and it has the database."""
    server = start("serve", "--port", "0")
    read_address(server)
    (data / "other.toml").write_text(
        "[server]\nport = 9\n" + "".join(f"[platforms.{name}]\nenabled = false\n" for name in OTHERS)
    )
    looked = run_command("doctor", "--config", "other.toml", "--json", cwd=data)
    checks = {check["name"]: check for check in looked.json["checks"]}
    assert checks["server"]["ok"]
    assert (
        "a server runs on this database, but does not answer at http://127.0.0.1:9"
        in checks["server address"]["message"]
    )
    assert checks["settings"]["message"] == f"read from {data / 'other.toml'}"
    assert server.stop() == 0


OTHERS = ("bluesky",)  # its service would be asked over the network


# --- The command that ends a pause ---------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [reason for reason in REASONS if reason])
def test_every_text_of_a_pause_names_the_command_that_ends_it(
    run: RunCommand, data: Path, reason: str, start: Callable[..., CommandProcess]
) -> None:
    set_to(data, reason)
    texts = [run("status").out, run("doctor", "--offline").out, notification(reason)]
    server = start("serve", "--port", "0")
    texts.append(server.until("publishing is paused"))
    read_address(server)
    assert server.stop() == 0
    named = {command for text in texts for command in COMMAND.findall(text)}
    assert all(COMMAND.search(text) for text in texts), texts
    assert named == {instance.get_resume_command(reason)}
    (command,) = named
    ended = run(*command.split()[1:])
    assert (ended.code, ended.out.splitlines()[-1]) == (0, f"Publishing was paused ({reason}) and continues now.")


def notification(reason: str) -> str:
    told = message_texts.MessageContext(PAUSED_TYPE, {"reason": reason}, None, 1, follows=False, since=0)
    return message_texts.compose(told, "https://example.com").text


# --- Sentences -----------------------------------------------------------------------------------------------------


def is_prose(ended: CommandResult) -> bool:
    """No JSON and no table of fields: lines that are sentences, or the parts of one."""
    lines = [re.sub(r"^(ok|FAIL|warn)? +", "", line) for line in ended.out.splitlines()]
    return bool(lines) and not [line for line in lines if re.search(r'[{}\[\]]|"\w+":|^\w+  +\S', line)]


@pytest.mark.matrix
@pytest.mark.parametrize("command", [("resume", "--after-restore"), ("status",), ("doctor", "--offline")])
@pytest.mark.parametrize("reason", REASONS)
def test_people_read_sentences_and_programs_json(
    run: RunCommand, data: Path, command: tuple[str, ...], reason: str | None
) -> None:
    set_to(data, reason)
    ended = run(*command)
    assert is_prose(ended), ended.out
    set_to(data, reason)
    assert isinstance(run(*command, "--json").json, dict)


@pytest.mark.slow
def test_the_demo_says_for_each_platform_what_became_of_it(folder: Path) -> None:
    ended = run_command("demo", "--once", "--port", "0", cwd=folder)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[-1] == f"{len(lines) - 1} of {len(lines) - 1} were published."
    assert lines[0].startswith("Bluesky: published, https://bsky.app/profile/")
    assert is_prose(ended), ended.out
    assert ended.err == "Publishing a text with an image to the simulated platforms …\n"


def test_the_first_start_says_in_one_line_what_was_migrated(start: Callable[..., CommandProcess], folder: Path) -> None:
    server = start("serve", "--port", "0")
    said = [server.line("stderr")]
    while not said[-1].startswith("socialpub serves "):
        said.append(server.line("stderr"))
    assert server.stop() == 0
    told = [line for line in said if "migration" in line]
    assert len(told) == 1
    assert re.search(r"socialpub\.db: migrations applied: \d+, from nothing to \d{4}_\w+$", told[0].strip())
    assert any(f"settings read from no file: {folder}/socialpub.toml does not exist" in line for line in said)


def test_a_refused_command_does_not_speak_of_requests(data: Path, run: RunCommand) -> None:
    for line in (("key", "show", "gone"), ("account", "show", "gone"), ("org", "create", "")):
        for ended in (run(*line), run(*line, "--json")):
            assert ended.code == 3
            assert not re.search("request|scope", ended.err + ended.out), line
