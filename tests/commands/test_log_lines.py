"""Commands that change something log one line on standard error; others log none."""

from __future__ import annotations

import getpass
from pathlib import Path

from socialpub.commands import command_table
from tests.support.command_runner import LOG_PREFIX, RunCommand
from tests.support.command_samples import command_names

READING = {
    "serve",
    "demo",
    "simulator",
    "config example",
    "doctor",
    "status",
    "export",
    "verify",
    "backups",
}  # and whatever lists
SECRETS = ("do-not-show", "correct horse")


def test_every_command_but_those_that_read_has_its_line() -> None:
    for name, command in command_names(command_table.build_root()):
        reads = name in READING or name.endswith((" list", " show"))
        assert (command.act == "") == reads, name
        assert command.act in ("", name)


def test_what_a_command_runs_is_there() -> None:
    assert all(callable(command.load()) for _, command in command_names(command_table.build_root()))


def left(run: RunCommand, *arguments: str, stdin: str = "") -> tuple[str, dict[str, str]]:
    """The line of a command, after its time, and what it printed."""
    ended = run("--json", *arguments, stdin=stdin)
    assert ended.code == 0, ended.err
    (line,) = ended.err.splitlines()
    assert LOG_PREFIX in line
    assert not any(secret in line for secret in SECRETS), line
    return line.partition(LOG_PREFIX)[2], ended.json


def test_each_act_leaves_what_was_done_to_what_and_by_whom(run: RunCommand, folder: Path) -> None:
    who = f", by command of {getpass.getuser()}, settings read from no file: {folder}/socialpub.toml does not exist"
    who += " (set another one with --config)"
    line, _ = left(run, "migrate")
    assert line.startswith("migrate: to ")
    assert line.endswith(who)
    line, made = left(run, "backup", "b.zip")
    assert line == f"backup: file {made['file']}{who}"
    line, _ = left(run, "restore", "b.zip", "--database", "back/socialpub.db")
    assert line.startswith("restore: database ")
    line, org = left(run, "org", "create", "Acme & correct horse")
    assert line == f"org create: id {org['id']}{who}"
    line, profile = left(run, "profile", "create", "Brand")
    assert line.startswith(f"profile create: id {profile['id']}")
    line, key = left(run, "key", "create")
    assert line.startswith(f"key create: id {key['id']}")
    assert key["key"] not in line
    assert left(run, "key", "revoke", key["id"])[0].startswith(f"key revoke: id {key['id']}")
    password = "correct horse battery\n"
    line, user = left(run, "user", "create", "--email", "a@example.com", "--role", "owner", stdin=password)
    assert line.startswith(f"user create: id {user['id']}")
    assert "example.com" not in line
    line, _ = left(run, "user", "set-password", "--email", "a@example.com", stdin=password)
    assert line.startswith(f"user set-password: id {user['id']}")
    tokens = '{"accessToken": "access-do-not-show", "refreshToken": "refresh-do-not-show"}'
    add = ("account", "add", "--profile", profile["id"], "--platform", "twitter", "--platform-account-id", "1")
    line, account = left(run, *add, stdin=tokens)
    assert line.startswith(f"account add: id {account['id']}, profileId {profile['id']}, platform twitter")


def test_what_did_nothing_leaves_no_line(run: RunCommand) -> None:
    run("migrate")
    assert [run("--json", *command).err for command in (("migrate",), ("resume",), ("org", "list"))] == ["", "", ""]
    assert LOG_PREFIX not in run("key", "revoke", "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071").err
