"""Operator commands and the API refuse the same names and record the same audit rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_data import audit_rows
from tests.support.command_runner import RunCommand

Ask = Callable[..., Any]


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["", " ", "\t\n", "\u3000", "a\0b", "x" * 201])
@pytest.mark.parametrize("command", [("org", "create"), ("profile", "create"), ("key", "create", "--name")])
def test_a_command_refuses_the_names_that_the_api_refuses(run: RunCommand, command: tuple[str, ...], name: str) -> None:
    assert run("org", "create", "Acme").code == 0
    ended = run(*command, name, "--json")
    assert (ended.code, ended.error["code"], ended.error["rule"]) == (3, "validation_failed", "name")


@pytest.mark.parametrize("profile", ["not-a-uuid", "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071"])
def test_a_key_is_bound_to_no_profile_that_is_not_there(run: RunCommand, profile: str) -> None:
    assert run("org", "create", "Acme").code == 0
    assert run("key", "create", "--profile", profile).code == 3
    assert run("key", "list", "--json").json == []


def test_every_act_of_the_operator_leaves_a_row(run: RunCommand, ask: Ask, folder: Path) -> None:
    org = ask("org", "create", "Acme")["id"]
    (profile,) = ask("profile", "list")
    named = ("--profile", profile["id"], "--platform", "threads", "--platform-account-id", "7")
    account = ask("account", "add", *named, stdin=json.dumps({"accessToken": "made-up"}))["id"]
    key = ask("key", "create")["id"]
    ask("key", "revoke", key)
    user = ask("user", "create", "--email", "a@example.com", "--role", "owner", stdin="a long password\n")["id"]
    pause(folder)
    ask("resume", "--after-restore")
    assert audit_rows(folder) == [
        ("command org_create", org),
        ("command account_add", account),
        ("command key_create", key),
        ("command key_revoke", key),
        ("command user_create", user),
        ("command resume", None),
    ]


def test_resuming_what_is_not_paused_is_no_act(ask: Ask, folder: Path) -> None:
    ask("org", "create", "Acme")
    ask("resume")
    assert [verb for verb, _ in audit_rows(folder)] == ["command org_create"]


def pause(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "socialpub.db")) as connection, connection:
        connection.execute(
            "INSERT INTO instance (id, epoch, beat, uid, mark, seen_at, paused) VALUES (1, 1, 0, '', '', 0, 'restored')"
        )
