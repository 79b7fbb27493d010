"""Command-line input: hidden passwords, spelling hints, shell completion, help."""

from __future__ import annotations

from pathlib import Path

import pytest

from socialpub import __version__
from socialpub_client.commands import exit_codes
from tests.support import forked_commands
from tests.support.command_runner import CommandResult, RunCommand, command_environment, run_command
from tests.support.terminal import read_terminal_until, start_at_terminal

SECRET = "correct horse battery staple"


def test_a_new_password_is_typed_unseen_and_twice(run: RunCommand, folder: Path) -> None:
    run("org", "create", "Acme")
    with start_at_terminal("user", "create", "--email", "a@example.com", "--role", "owner", cwd=folder) as (
        process,
        tty,
    ):
        seen = ""
        for typed, asked in (
            (SECRET, "Password: "),
            ("something else", "Repeat for confirmation: "),
            (SECRET, "Password: "),
            (SECRET, "Repeat for confirmation: "),
        ):
            seen += read_terminal_until(tty, asked)
            tty.write(typed.encode() + b"\n")
        assert "a@example.com" in process.popen.communicate()[0]
        seen += read_terminal_until(tty, "user create: id")
    assert SECRET not in seen
    assert "do not match" in seen


def test_ctrl_c_at_a_question_ends_with_130_and_changes_nothing(run: RunCommand, folder: Path) -> None:
    run("org", "create", "Acme")
    with start_at_terminal("user", "create", "--email", "a@example.com", "--role", "owner", cwd=folder) as (
        process,
        tty,
    ):
        read_terminal_until(tty, "Password: ")
        assert process.interrupt() == exit_codes.INTERRUPTED
    assert run("user", "list", "--json").json == []


@pytest.mark.parametrize(
    "typed, meant",
    [
        (("orgs", "list"), "'org'"),
        (("org", "lst"), "'list'"),
        (("account", "connect", "bluesk"), "'bluesky'"),
        (("resume", "--after-restor"), "'--after-restore'"),
    ],
)
def test_what_was_mistyped_gets_the_nearest_word(run: RunCommand, typed: tuple[str, ...], meant: str) -> None:
    ended = run(*typed)
    assert ended.code == 2
    assert f"Did you mean {meant}?" in ended.err


def test_help_names_defaults_and_where_a_value_may_come_from(run: RunCommand) -> None:
    said = " ".join(run("listen", "--help").out.split())
    assert "env var: SOCIALPUB_URL" in said
    assert "default: X-Service" in said


def completed(folder: Path, *words: str) -> set[str]:
    """What bash is told after these words."""
    asked = {"_SOCIALPUB_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(("socialpub", *words))}
    env = command_environment() | asked | {"COMP_CWORD": str(len(words))}
    ended = run_command(cwd=folder, begin=lambda words, cwd, _: forked_commands.start_fork(words, cwd, env))
    return {line.partition(",")[2] for line in ended.out.splitlines()}


def test_a_shell_completes_commands_options_and_words(folder: Path) -> None:
    assert completed(folder, "acc") == {"account", "accounts"}
    assert {"list", "add", "connect"} <= completed(folder, "account", "")
    assert completed(folder, "resume", "--after") == {"--after-restore"}
    assert completed(folder, "account", "connect", "blue") == {"bluesky"}
    assert completed(folder, "account", "list", "--platform", "th") == {"threads"}


def imported(folder: Path, *arguments: str) -> tuple[CommandResult, set[str]]:
    """What a command says, and which modules it read for that."""
    timed = command_environment() | {"PYTHONPROFILEIMPORTTIME": "1"}
    ended = run_command(
        *arguments, cwd=folder, begin=lambda words, cwd, _: forked_commands.start_python(words, cwd, timed)
    )
    names = {line.rpartition("|")[2].strip() for line in ended.err.splitlines() if line.startswith("import time:")}
    return ended, names


@pytest.mark.parametrize("typed", [("--version",), ("--help",), ("org", "--help"), ("serve", "--help")])
def test_versions_and_help_are_told_without_reading_the_program(folder: Path, typed: tuple[str, ...]) -> None:
    ended, names = imported(folder, *typed)
    assert ended.code == 0
    assert __version__ in ended.out or "usage: socialpub" in ended.out
    assert "socialpub.commands.command_table" in names
    assert not names & {"sanic", "httpx", "peewee", "pydantic", "socialpub.platforms", "socialpub.domain"}
