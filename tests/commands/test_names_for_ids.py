"""Names in place of ids on the command line, and `account disconnect`."""

from __future__ import annotations

import json
import re
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.runtime import DAY_MS, SystemClock
from socialpub.domain.schemas.common import parse_instant
from socialpub_client.commands import exit_codes
from tests.support.command_data import PASSWORD, audit_rows, insert_account, make_organization, make_user
from tests.support.command_runner import RunCommand
from tests.support.terminal import read_terminal_until, start_at_terminal

Ask = Callable[..., Any]


def refused(run: RunCommand, *arguments: str) -> Any:
    ended = run("--json", *arguments)
    assert ended.code == 3
    return ended.error


def test_an_organization_goes_by_its_name(ask: Ask) -> None:
    (acme, _), (other, _) = make_organization(ask), make_organization(ask, "Other House")
    assert ask("org", "set-tier", "acme", "pro")["id"] == acme
    made = ask("key", "create", "--org", "other house")
    assert ask("key", "list", "--org", other)[0]["id"] == made["id"]
    shown = ask("org", "show", "Acme")
    assert shown == {
        "id": acme,
        "name": "Acme",
        "tier": "pro",
        "createdAt": shown["createdAt"],
        "profiles": 1,
        "users": 0,
        "accounts": 0,
        "keys": 0,
    }


def test_a_name_of_several_is_refused_with_all_of_them(ask: Ask, run: RunCommand) -> None:
    there = [make_organization(ask, name)[0] for name in ("Acme", "acme")]
    error = refused(run, "org", "show", "ACME")
    assert (error["code"], error["message"]) == ("validation_failed", "2 organizations are called 'ACME'.")
    assert error["remediation"] == f"Name one by its id: {there[0]} (Acme), {there[1]} (acme)."
    assert refused(run, "org", "show", "Acne")["message"] == "There is no organization called 'Acne'."
    assert ask("org", "show", there[1])["name"] == "acme"


def test_of_many_that_are_meant_the_first_are_named(ask: Ask, run: RunCommand, folder: Path) -> None:
    org, _ = make_organization(ask)
    first = ask("key", "create", "--org", org, "--name", "ci")["id"]
    with closing(sqlite3.connect(folder / "socialpub.db")) as database, database:
        database.execute("CREATE TEMP TABLE another AS SELECT * FROM api_key WHERE id = ?", (first,))
        for number in range(11):
            database.execute("UPDATE another SET id = ?, digest = ?", (str(uuid.uuid4()), str(number)))
            database.execute("INSERT INTO api_key SELECT * FROM another")
    error = refused(run, "key", "revoke", "ci")
    assert error["remediation"].count("(ci, ") == 10
    assert error["remediation"].endswith(", and 2 more.")
    assert all(key["revokedAt"] is None for key in ask("key", "list"))


def test_profiles_go_by_name_or_slug_and_the_only_one_need_not_be_named(ask: Ask, run: RunCommand) -> None:
    org, first = make_organization(ask)
    given = ("account", "add", "--platform", "bluesky", "--platform-account-id", "did:plc:a")
    tokens = json.dumps({"accessToken": "access-token-do-not-show"})
    made = ask(*given, stdin=tokens)
    assert made["profileId"] == first
    second = ask("profile", "create", "Café Münster")["id"]
    key = ask("key", "create", "--profile", "café münster")
    assert key["profileId"] == second
    assert ask("account", "list", "--profile", "default") == [made]
    shown = ask("profile", "show", "caf-m-nster")
    assert (shown["id"], shown["organizationId"], shown["accounts"], shown["keys"]) == (second, org, 0, 1)
    ended = run("--json", *given, stdin=tokens)
    assert ended.error["remediation"] == f"Name one with --profile: {first} (default), {second} (Café Münster)."


def test_a_key_goes_by_its_name_or_last_characters(ask: Ask, run: RunCommand) -> None:
    org, _ = make_organization(ask)
    made = ask("key", "create", "--name", "ci")
    shown = ask("key", "show", made["last4"])
    assert shown == {name: value for name, value in made.items() if name != "key"} | {"organizationId": org}
    assert made["key"] not in run("key", "show", "ci").out
    assert ask("key", "revoke", "ci")["id"] == made["id"]


def test_a_key_is_limited_by_its_options(ask: Ask, run: RunCommand) -> None:
    _, profile = make_organization(ask)
    given = ("account", "add", "--platform", "bluesky", "--platform-account-id", "did:plc:a", "--display-name", "Shop")
    account = ask(*given, stdin=json.dumps({"accessToken": "access-token-do-not-show"}))["id"]
    limits = ("--scope", "media", "--scope", "posts:plan", "--account", "shop", "--expires", "2099-01-31T00:00:00Z")
    made = ask("key", "create", "--name", "agent", *limits)
    assert (made["scopes"], made["accounts"]) == (["posts:plan", "media"], [account])
    assert made["expiresAt"] == "2099-01-31T00:00:00.000Z"
    assert ask("key", "list")[0]["scopes"] == made["scopes"]
    assert run("key", "create", "--scope", "posts:all").code == 2
    assert refused(run, "key", "create", "--account", "bakery")["code"] == "not_found"
    ends = parse_instant(ask("key", "create", "--expires", "90d")["expiresAt"])
    assert abs(ends - SystemClock().now_ms() - 90 * DAY_MS) < DAY_MS
    for unknown in ("90", "3 weeks", "999999999999d"):
        ended = run("key", "create", "--expires", unknown)
        assert (ended.code, f"--expires {unknown}: Input should be an RFC 3339 date-time" in ended.err) == (2, True)
        assert ended.err.endswith("Or give a duration, such as 90d.\n")
    past = run("key", "create", "--expires", "2020-01-31T00:00:00Z")
    assert (past.code, "--expires 2020-01-31T00:00:00Z: Must be in the future." in past.err) == (2, True)


def test_a_user_goes_by_the_address(ask: Ask, run: RunCommand) -> None:
    org, _ = make_organization(ask)
    made = make_user(ask, "ann@example.com")
    shown = ask("user", "show", "Ann@example.com")
    assert shown == made | {"organizationId": org, "createdAt": shown["createdAt"], "sessions": 0}
    assert "argon2" not in run("user", "show", made["id"]).out
    assert ask("user", "set-password", "--email", "ann@example.com", stdin=PASSWORD)["id"] == made["id"]


@pytest.mark.parametrize("called", ["did:plc:a", "Alice", "alice.test", "bluesky alice"])
def test_an_account_goes_by_all_that_it_is_called(ask: Ask, run: RunCommand, called: str) -> None:
    org, _ = make_organization(ask)
    tokens = json.dumps({"accessToken": "access-token-do-not-show", "extra": {"handle": "alice.test"}})
    add = ("account", "add", "--platform", "bluesky", "--platform-account-id", "did:plc:a", "--display-name", "Alice")
    made = ask(*add, stdin=tokens)
    assert ask("account", "show", called) == made | {"organizationId": org, "waiting": 0}
    assert "do-not-show" not in run("account", "show", called).out


# --- Disconnecting -----------------------------------------------------------------------------------------------


def disconnected(folder: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "socialpub.db")) as connection:
        return connection.execute("SELECT id, secret FROM account WHERE disconnected_at IS NOT NULL").fetchall()


def test_an_account_is_disconnected_once_somebody_agrees(ask: Ask, run: RunCommand, folder: Path) -> None:
    _, profile = make_organization(ask)
    made = insert_account(ask, profile, "twitter", "7")
    ended = run("account", "disconnect", "7", "--json")
    assert (ended.code, disconnected(folder)) == (2, [])
    assert "confirm with --yes" in ended.err
    ended = run("account", "disconnect", "7", "--yes", "--json")
    assert (ended.code, ended.json) == (0, {"id": made["id"], "deleted": True})
    assert ended.err.startswith("X account 7: its tokens are deleted here and, where possible, revoked at X.")
    assert "No post is scheduled on it." in ended.err
    assert disconnected(folder) == [(made["id"], None)]
    assert audit_rows(folder)[-1] == ("command account_disconnect", made["id"])
    assert refused(run, "account", "disconnect", "7", "--yes")["message"] == "There is no account called '7'."


@pytest.mark.parametrize("typed, gone", [("n", False), ("y", True)])
def test_at_a_terminal_it_asks(ask: Ask, folder: Path, typed: str, gone: bool) -> None:
    _, profile = make_organization(ask)
    insert_account(ask, profile, "twitter", "7")
    with start_at_terminal("account", "disconnect", "7", cwd=folder) as (process, terminal):
        seen = read_terminal_until(terminal, "Disconnect it? [y/N]: ")
        assert re.search(r"X account 7: its tokens are deleted", seen)
        terminal.write(typed.encode() + b"\n")
        assert process.popen.wait(60) == (exit_codes.DONE if gone else exit_codes.INTERRUPTED)
    assert bool(disconnected(folder)) == gone
