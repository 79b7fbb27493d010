"""Commands that list organizations, users and accounts; the optional organization id."""

from __future__ import annotations

import pytest

from tests.support.command_data import PASSWORD, Ask, insert_account, make_organization, make_user
from tests.support.command_runner import RunCommand

UNKNOWN = "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071"


def test_organizations_are_listed_oldest_first(ask: Ask, run: RunCommand) -> None:
    assert ask("org", "list") == []
    acme, other = (ask("org", "create", name) for name in ("Acme", "Other"))
    assert ask("org", "list") == [acme, other]
    assert run("org", "list").out == f"{acme['id']}  Acme\n{other['id']}  Other\n"


def test_users_are_listed_for_all_organizations_or_for_one(ask: Ask, run: RunCommand) -> None:
    (acme, _), (other, _) = make_organization(ask), make_organization(ask, "Other")
    ann, bob = make_user(ask, "ann@example.com", "--org", acme), make_user(ask, "bob@example.com", "--org", other)
    assert ask("user", "list") == [ann, bob]
    assert ask("user", "list", "--org", other) == [bob]
    assert run("user", "list", "--org", acme).out == f"{ann['id']}  ann@example.com  member\n"
    assert "argon2" not in run("user", "list", "--json").out


def test_without_a_database_the_command_over_the_api_is_named(run: RunCommand) -> None:
    asked = [run("account", "list", "--json") for _ in range(2)]
    assert [(each.code, each.out) for each in asked] == [(0, "[]\n")] * 2
    assert "Over the API: socialpub accounts list" in asked[0].err
    assert asked[1].err == ""


@pytest.mark.slow
def test_accounts_are_listed_as_the_api_shows_them(ask: Ask, run: RunCommand) -> None:
    (acme, hers), (other, theirs) = make_organization(ask), make_organization(ask, "Other")
    second = ask("profile", "create", "--org", acme, "Second")["id"]
    made = [
        insert_account(ask, hers, "bluesky", "did:plc:a"),
        insert_account(ask, second, "twitter", "7"),
        insert_account(ask, theirs, "bluesky", "did:plc:b"),
    ]
    assert ask("account", "list") == made
    assert ask("account", "list", "--org", acme) == made[:2]
    assert ask("account", "list", "--profile", second) == [made[1]]
    assert ask("account", "list", "--platform", "bluesky") == [made[0], made[2]]
    assert ask("account", "list", "--status", "revoked") == []
    elsewhere = run("--json", "account", "list", "--org", other, "--profile", hers)
    assert (elsewhere.code, elsewhere.error["code"]) == (3, "not_found")
    assert "do-not-show" not in run("account", "list", "--json").out


@pytest.mark.parametrize("what", ["user", "account", "profile", "key"])
def test_a_list_of_an_organization_that_is_none_ends_with_3(run: RunCommand, what: str) -> None:
    ended = run("--json", what, "list", "--org", UNKNOWN)
    assert (ended.code, ended.error["code"]) == (3, "not_found")


def test_the_one_organization_need_not_be_named(ask: Ask) -> None:
    """Who set up in the browser has an organization and has never seen its id."""
    org, first = make_organization(ask)
    key = ask("key", "create", "--name", "ci")
    assert (key["name"], key["profileId"]) == ("ci", None)
    assert ask("key", "list", "--org", org)[0]["id"] == key["id"]
    second = ask("profile", "create", "Second")["id"]
    assert [row["id"] for row in ask("profile", "list")] == [first, second]
    ann = make_user(ask, "ann@example.com")
    assert ask("user", "list", "--org", org) == [ann]


@pytest.mark.parametrize(
    "command",
    [
        ("key", "create"),
        ("profile", "create", "Second"),
        ("user", "create", "--email", "a@b.example", "--role", "owner"),
    ],
)
def test_organization_must_be_named_when_several_and_made_when_none(
    ask: Ask, run: RunCommand, command: tuple[str, ...]
) -> None:
    none = run("--json", *command, stdin=PASSWORD)
    assert (none.code, none.error["remediation"]) == (3, "Make one: socialpub org create NAME")
    orgs = [make_organization(ask, name)[0] for name in ("Acme", "Other")]
    several = run("--json", *command, stdin=PASSWORD)
    assert several.code == 3
    assert several.error["remediation"] == f"Name one with --org: {orgs[0]} (Acme), {orgs[1]} (Other)."
    assert (ask("key", "list"), ask("user", "list")) == ([], [])
