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


def ask_completion(folder: Path, **asked: str) -> CommandResult:
    env = command_environment() | asked
    return run_command(cwd=folder, begin=lambda words, cwd, _: forked_commands.start_fork(words, cwd, env))


def completed(folder: Path, *words: str) -> set[str]:
    """What bash is told after these words."""
    asked = {"_SOCIALPUB_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(("socialpub", *words))}
    ended = ask_completion(folder, **asked, COMP_CWORD=str(len(words)))
    return {line.partition(",")[2] for line in ended.out.splitlines()}


def test_a_shell_completes_commands_options_and_words(folder: Path) -> None:
    assert completed(folder, "acc") == {"account", "accounts"}
    assert {"list", "add", "connect"} <= completed(folder, "account", "")
    assert completed(folder, "resume", "--after") == {"--after-restore"}
    assert completed(folder, "account", "connect", "blue") == {"bluesky"}
    assert completed(folder, "account", "list", "--platform", "th") == {"threads"}


@pytest.mark.parametrize(
    "asked",
    [
        {"_SOCIALPUB_COMPLETE": "nonsense"},
        {"_SOCIALPUB_COMPLETE": "bash_nonsense"},
        {"_SOCIALPUB_COMPLETE": "bash_complete"},
        {"_SOCIALPUB_COMPLETE": "bash_complete", "COMP_WORDS": "socialpub", "COMP_CWORD": "x"},
    ],
)
def test_a_completion_that_cannot_be_given_ends_with_2(folder: Path, asked: dict[str, str]) -> None:
    ended = ask_completion(folder, **asked)
    assert (ended.code, ended.out, "_SOCIALPUB_COMPLETE" in ended.err) == (2, "", True)
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(folder: Path, shell: str) -> None:
    ended = ask_completion(folder, _SOCIALPUB_COMPLETE=f"{shell}_source")
    assert (ended.code, "_SOCIALPUB_COMPLETE" in ended.out) == (0, True)


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
