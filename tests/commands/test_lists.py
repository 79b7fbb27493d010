"""What the database holds, by command: organizations, users, accounts; and whose id may be left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.commands.conftest import Run

Ask = Callable[..., Any]
UNKNOWN = "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071"
PASSWORD = "correct horse battery staple"


def home(ask: Ask, name: str = "Acme") -> tuple[str, str]:
    """(organization, its first profile)."""
    org = ask("org", "create", name)["id"]
    return org, ask("profile", "list", "--org", org)[0]["id"]


def user(ask: Ask, email: str, *where: str) -> dict[str, Any]:
    made = ask("user", "create", *where, "--email", email, "--role", "member", stdin=PASSWORD)
    return dict(made)


def account(ask: Ask, profile: str, platform: str, name: str) -> dict[str, Any]:
    given = ("--profile", profile, "--platform", platform, "--platform-account-id", name)
    return dict(ask("account", "add", *given, stdin=json.dumps({"accessToken": "access-token-do-not-show"})))


def test_organizations_are_listed_oldest_first(ask: Ask, run: Run) -> None:
    assert ask("org", "list") == []
    acme, other = (ask("org", "create", name) for name in ("Acme", "Other"))
    assert ask("org", "list") == [acme, other]
    assert run("org", "list").out == f"{acme['id']}  Acme\n{other['id']}  Other\n"


def test_users_are_listed_for_all_organizations_or_for_one(ask: Ask, run: Run) -> None:
    (acme, _), (other, _) = home(ask), home(ask, "Other")
    ann, bob = user(ask, "ann@example.com", "--org", acme), user(ask, "bob@example.com", "--org", other)
    assert ask("user", "list") == [ann, bob]
    assert ask("user", "list", "--org", other) == [bob]
    assert run("user", "list", "--org", acme).out == f"{ann['id']}  ann@example.com  member\n"
    assert "argon2" not in run("user", "list", "--json").out


def test_accounts_are_listed_as_the_api_shows_them(ask: Ask, run: Run) -> None:
    (acme, hers), (other, theirs) = home(ask), home(ask, "Other")
    second = ask("profile", "create", "--org", acme, "Second")["id"]
    made = [
        account(ask, hers, "bluesky", "did:plc:a"),
        account(ask, second, "twitter", "7"),
        account(ask, theirs, "bluesky", "did:plc:b"),
    ]
    assert ask("account", "list") == made
    assert ask("account", "list", "--org", acme) == made[:2]
    assert ask("account", "list", "--profile", second) == [made[1]]
    assert ask("account", "list", "--platform", "bluesky") == [made[0], made[2]]
    assert ask("account", "list", "--status", "revoked") == []
    assert ask("account", "list", "--org", other, "--profile", hers) == []
    assert "do-not-show" not in run("account", "list", "--json").out


@pytest.mark.parametrize("what", ["user", "account", "profile", "key"])
def test_a_list_of_an_organization_that_is_none_ends_with_3(run: Run, what: str) -> None:
    ended = run("--json", what, "list", "--org", UNKNOWN)
    assert (ended.code, ended.error["code"]) == (3, "not_found")


def test_the_one_organization_need_not_be_named(ask: Ask) -> None:
    """Who set up in the browser has an organization and has never seen its id."""
    org, first = home(ask)
    key = ask("key", "create", "--name", "ci")
    assert (key["name"], key["profileId"]) == ("ci", None)
    assert ask("key", "list", "--org", org)[0]["id"] == key["id"]
    second = ask("profile", "create", "Second")["id"]
    assert [row["id"] for row in ask("profile", "list")] == [first, second]
    ann = user(ask, "ann@example.com")
    assert ask("user", "list", "--org", org) == [ann]


@pytest.mark.parametrize(
    "command",
    [
        ("key", "create"),
        ("profile", "create", "Second"),
        ("user", "create", "--email", "a@b.example", "--role", "owner"),
    ],
)
def test_of_several_organizations_one_must_be_named_and_of_none_one_be_made(
    ask: Ask, run: Run, command: tuple[str, ...]
) -> None:
    none = run("--json", *command, stdin=PASSWORD)
    assert (none.code, none.error["remediation"]) == (3, "Make one: socialpub org create NAME")
    orgs = [home(ask, name)[0] for name in ("Acme", "Other")]
    several = run("--json", *command, stdin=PASSWORD)
    assert several.code == 3
    assert several.error["remediation"] == f"Name one with --org: {orgs[0]} (Acme), {orgs[1]} (Other)."
    assert (ask("key", "list"), ask("user", "list")) == ([], [])
