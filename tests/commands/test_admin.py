"""Administration commands: org, profile, key, account, migrate, and their exit codes."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from socialpub import __version__
from socialpub.base.system.directories import find_shipped_directory
from socialpub.simulator.server import SimulatorThread
from tests.support.command_runner import TOKENS, AskCommand, RunCommand, run_command

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
UNKNOWN = "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071"


@dataclass(frozen=True)
class House:
    """An organization and its profile `default`."""

    org: str
    profile: str


@pytest.fixture
def house(ask: AskCommand) -> House:
    org = ask("org", "create", "Acme")["id"]
    return House(org, ask("profile", "list", "--org", org)[0]["id"])


# --- How commands speak ------------------------------------------------------------------------------------------


def test_a_command_says_where_it_made_a_new_database(folder: Path) -> None:
    said = f"created a new database at {folder.resolve()}/socialpub.db"
    assert said in run_command("org", "list", cwd=folder).err
    assert said not in run_command("org", "list", cwd=folder).err


def test_the_version_is_told(run: RunCommand) -> None:
    ended = run("--version")
    assert (ended.code, ended.out) == (0, f"{__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("org",),
        ("org", "create"),
        ("org", "set-tier", UNKNOWN, "golden"),
        ("key", "create", "--org"),
        ("migrate", "--nonsense"),
        ("serve", "--port", "many"),
        ("account", "add", "--profile", UNKNOWN, "--platform", "myspace", "--platform-account-id", "1"),
        ("account", "connect", "facebook"),
        ("account", "connect", "bluesky", "--profile", UNKNOWN),
    ],
)
def test_invalid_command_line_exits_with_2_and_changes_nothing(
    run: RunCommand, folder: Path, arguments: tuple[str, ...]
) -> None:
    ended = run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("usage: socialpub")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("arguments", [("--json", "migrate"), ("migrate", "--json")])
def test_json_may_stand_before_or_after_the_command(run: RunCommand, arguments: tuple[str, ...]) -> None:
    assert run(*arguments).json["from"] is None


@pytest.mark.parametrize("before", [True, False])
def test_config_may_stand_before_or_after_the_command(run: RunCommand, folder: Path, before: bool) -> None:
    (folder / "other.toml").write_text('[database]\nurl = "other.db"\n')
    named = ("--config", "other.toml")
    assert run(*(named if before else ()), "migrate", *(() if before else named)).code == 0
    assert (folder / "other.db").exists()
    assert not (folder / "socialpub.db").exists()


def test_the_database_can_be_named_on_the_command_line(run: RunCommand, folder: Path) -> None:
    assert run("migrate", "--database", "deep/x.db").code == 0
    assert (folder / "deep" / "x.db").exists()


def test_people_get_lines_in_place_of_json(run: RunCommand) -> None:
    ended = run("org", "create", "Acme")
    assert re.fullmatch(rf"id +{UUID.pattern}\nname +Acme\n", ended.out)


def test_people_get_one_line_for_each_thing_of_a_list(run: RunCommand, house: House) -> None:
    ended = run("profile", "list", "--org", house.org)
    assert ended.out.startswith(f"{house.profile}  default  default  ")
    assert run("key", "list").out == "none\n"


def test_failure_is_one_json_value_on_stdout_and_a_line_for_people(run: RunCommand) -> None:
    ended = run("profile", "create", "--org", UNKNOWN, "Main", "--json")
    assert ended.code == 3
    assert ended.error["code"] == "not_found"
    assert ended.error["message"] == "There is no organization with this id."
    assert ended.err.startswith("socialpub: There is no organization with this id.\n")


def test_a_wrong_setting_ends_with_1_and_says_which(run: RunCommand, folder: Path) -> None:
    (folder / "socialpub.toml").write_text("[server]\nprot = 1\n")
    ended = run("migrate", "--json")
    assert ended.code == 1
    assert ended.error == {"message": "server.prot: there is no such setting; did you mean server.port?"}
    assert ended.err == "socialpub: server.prot: there is no such setting; did you mean server.port?\n"


def test_the_settings_file_with_every_default_is_printed(run: RunCommand, folder: Path) -> None:
    printed = run("config", "example").out
    assert printed.startswith("# socialpub.toml: every setting with its default.")
    assert run("config", "example", "--json").json == printed
    assert list(folder.iterdir()) == []


# --- Organizations, profiles -------------------------------------------------------------------------------------


def test_the_first_command_makes_database_and_key_file(run: RunCommand, folder: Path) -> None:
    assert run("org", "create", "Acme").code == 0
    assert (folder / "socialpub.db").exists()
    assert (folder / "master.key").stat().st_mode & 0o777 == 0o600


def test_an_organization_is_put_into_a_tier(run: RunCommand, ask: AskCommand, house: House) -> None:
    for tier in ("free", "pro", "business", "enterprise", "self_host"):
        assert ask("org", "set-tier", house.org, tier) == {"id": house.org, "name": "Acme", "tier": tier}
    refused = run("org", "set-tier", UNKNOWN, "pro", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (3, "not_found")


def test_control_characters_of_a_name_do_not_reach_the_terminal(run: RunCommand, ask: AskCommand) -> None:
    """Tenants choose names, and the operator's terminal would obey them."""
    name = "\x1b[31mred\nid 1\x9b"
    assert ask("org", "create", name)["name"] == name
    ask("org", "create", name)
    for line in (("org", "list"), ("org", "show", "x"), ("org", "show", name)):
        ended = run(*line)
        assert not re.search("[\x1b\x9b]|^id 1", ended.out + ended.err, re.MULTILINE)
    assert r"\x1b[31mred\nid 1\x9b" in run("org", "list").out


def test_accounts_of_a_profile_are_listed_within_its_organization(ask: AskCommand, folder: Path) -> None:
    """Each organization has a profile `default`."""
    for name in ("Acme", "Other"):
        ask("org", "create", name)
    assert ask("account", "list", "--org", "Acme", "--profile", "default") == []


def test_an_organization_is_given_another_name(run: RunCommand, ask: AskCommand, folder: Path) -> None:
    made = ask("org", "create", "Acme")["id"]
    assert ask("org", "rename", "Acme", "Another") == {"id": made, "name": "Another"}
    assert ask("org", "list") == [{"id": made, "name": "Another"}]
    assert run("org", "rename", "Acme", "Third").code == 3
    assert run("org", "rename", "Another", " ").code == 3
    with closing(sqlite3.connect(folder / "socialpub.db")) as connection:
        (verb, subject) = connection.execute("SELECT verb, subject FROM audit ORDER BY number DESC").fetchone()
    assert (verb, subject) == ("command org_rename", made)


def test_what_a_deletion_ends_is_said_and_nothing_done_without_yes(
    run: RunCommand, ask: AskCommand, house: House
) -> None:
    ask("key", "create", "--org", house.org)
    ended = run("org", "delete", "Acme")
    assert ended.code == 3
    assert ended.out == ("Deleting the organization Acme ends:\n  1 API key: it is revoked.\n  1 profile.\n")
    said = "socialpub: Nothing was deleted. To delete it permanently, repeat the command with --yes.\n"
    assert ended.err == said
    told = run("org", "delete", house.org, "--json")
    assert (told.code, told.err) == (3, said)
    assert (told.json["organizationId"], told.json["name"], told.json["deleted"]) == (house.org, "Acme", False)
    assert {name: count for name, count in told.json["ends"].items() if count} == {"keys": 1, "profiles": 1}
    assert ask("org", "list") == [{"id": house.org, "name": "Acme"}]
    assert ask("key", "list")[0]["revokedAt"] is None


@pytest.mark.slow
def test_an_organization_is_deleted_with_all_that_it_has(
    run: RunCommand, ask: AskCommand, house: House, folder: Path
) -> None:
    other = ask("org", "create", "Other")["id"]
    theirs = ask("key", "create", "--org", other)["id"]
    ask("key", "create", "--org", house.org)
    ask(*add(house), stdin=json.dumps(TOKENS))
    people = ("--org", house.org, "--email", "a@example.com", "--role", "owner")
    ask("user", "create", *people, stdin="a long password\n")
    told = ask("org", "delete", "Acme", "--yes")
    assert (told["id"], told["name"], told["deleted"]) == (house.org, "Acme", True)
    wanted = {"accounts": 1, "keys": 1, "members": 1, "profiles": 1}
    assert {name: count for name, count in told["ends"].items() if count} == wanted
    assert ask("org", "list") == [{"id": other, "name": "Other"}]
    assert (ask("user", "list"), ask("account", "list")) == ([], [])
    assert {key["id"]: key["revokedAt"] is None for key in ask("key", "list")}[theirs] is True
    assert [key["revokedAt"] is None for key in ask("key", "list")].count(True) == 1
    for arguments in (
        ("org", "delete", house.org, "--yes"),
        ("org", "delete", house.org),
        ("org", "show", house.org),
        ("org", "rename", house.org, "x"),
        ("org", "set-tier", house.org, "pro"),
        ("key", "create", "--org", house.org),
        ("profile", "create", "--org", house.org, "x"),
        ("account", "list", "--org", house.org),
        ("export", "-", "--org", house.org),
    ):
        refused = run(*arguments, "--json")
        assert (refused.code, refused.error["code"]) == (3, "not_found"), arguments
    with closing(sqlite3.connect(folder / "socialpub.db")) as connection:
        acts = connection.execute("SELECT subject FROM audit WHERE verb = 'command org_delete'").fetchall()
        assert connection.execute("SELECT secret FROM account").fetchall() == [(None,)]
    assert acts == [(house.org,)]
    assert ask("profile", "list")  # the one that is left needs no name
    assert ask("org", "create", "Acme")["id"] != house.org


def test_people_are_told_what_a_deletion_has_ended(run: RunCommand, house: House) -> None:
    ended = run("org", "delete", house.org, "--yes")
    assert (ended.code, ended.out) == (0, "  1 profile.\nThe organization Acme is deleted.\n")
    assert f"org delete: id {house.org}" in ended.err


def test_an_organization_starts_with_a_profile_default(ask: AskCommand) -> None:
    org = ask("org", "create", "Acme")
    assert org == {"id": org["id"], "name": "Acme"}
    assert UUID.fullmatch(org["id"])
    (profile,) = ask("profile", "list", "--org", org["id"])
    assert (profile["name"], profile["slug"]) == ("default", "default")


def test_a_profile_is_made_as_the_api_shows_it(ask: AskCommand, house: House) -> None:
    profile = ask("profile", "create", "--org", house.org, "Café Münster")
    assert profile == {
        "id": profile["id"],
        "name": "Café Münster",
        "slug": profile["slug"],
        "createdAt": profile["createdAt"],
        "updatedAt": profile["createdAt"],
    }
    assert [row["id"] for row in ask("profile", "list", "--org", house.org)] == [house.profile, profile["id"]]


def test_a_second_profile_of_the_same_name_is_refused(run: RunCommand, house: House) -> None:
    ended = run("profile", "create", "--org", house.org, "Default", "--json")
    assert (ended.code, ended.error["rule"]) == (3, "profile.slug.unique")


# --- Keys --------------------------------------------------------------------------------------------------------


def test_a_key_is_shown_once(ask: AskCommand, run: RunCommand, house: House, folder: Path) -> None:
    made = ask("key", "create", "--org", house.org, "--name", "ci")
    assert re.fullmatch(r"svc_live_[0-9A-Za-z]{49}", made["key"])
    assert made["last4"] == made["key"][-4:]
    (listed,) = ask("key", "list")
    assert listed == {name: value for name, value in made.items() if name != "key"}
    assert all(made["key"].encode() not in file.read_bytes() for file in folder.iterdir())


def test_a_key_can_be_bound_to_a_profile_and_be_labelled_as_test(ask: AskCommand, house: House) -> None:
    made = ask("key", "create", "--org", house.org, "--profile", house.profile, "--test")
    assert made["key"].startswith("svc_test_")
    assert made["profileId"] == house.profile


def test_keys_are_listed_for_all_organizations_or_for_one(ask: AskCommand, house: House) -> None:
    other = ask("org", "create", "Other")["id"]
    mine, theirs = (ask("key", "create", "--org", org)["id"] for org in (house.org, other))
    assert {key["id"] for key in ask("key", "list")} == {mine, theirs}
    assert [key["id"] for key in ask("key", "list", "--org", other)] == [theirs]


def test_a_key_is_revoked_once_and_for_all(ask: AskCommand, house: House) -> None:
    made = ask("key", "create", "--org", house.org)
    revoked = ask("key", "revoke", made["id"])
    assert revoked == {"id": made["id"], "revokedAt": revoked["revokedAt"]}
    assert ask("key", "revoke", made["id"]) == revoked
    assert ask("key", "list")[0]["revokedAt"] == revoked["revokedAt"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("key", "create", "--org", UNKNOWN),
        ("key", "create", "--org", "{org}", "--profile", UNKNOWN),
        ("key", "revoke", UNKNOWN),
        ("key", "revoke", "not-an-id"),
        ("profile", "create", "--org", UNKNOWN, "Main"),
    ],
)
def test_an_unknown_id_ends_with_3(run: RunCommand, house: House, arguments: tuple[str, ...]) -> None:
    ended = run("--json", *(part.format(org=house.org) for part in arguments))
    assert (ended.code, ended.error["code"]) == (3, "not_found")


# --- Accounts ----------------------------------------------------------------------------------------------------


def add(house: House, **options: str) -> tuple[str, ...]:
    given = {"profile": house.profile, "platform": "bluesky", "platform-account-id": "did:plc:alice"} | options
    return ("account", "add", *(part for name, value in given.items() for part in (f"--{name}", value)))


def test_an_account_is_added_from_tokens(ask: AskCommand, house: House, folder: Path) -> None:
    tokens = TOKENS | {"expiresAt": "2030-01-02T03:04:05+01:00", "extra": {"handle": "alice.test"}}
    account = ask(*add(house, **{"display-name": "Alice"}), stdin=json.dumps(tokens))
    assert account == {
        "id": account["id"],
        "profileId": house.profile,
        "platform": "bluesky",
        "platformAccountId": "did:plc:alice",
        "displayName": "Alice",
        "status": "active",
        "createdAt": account["createdAt"],
        "updatedAt": account["createdAt"],
        "tokenExpiresAt": "2030-01-02T02:04:05.000Z",
    }
    for file in folder.iterdir():
        assert b"do-not-show" not in file.read_bytes(), file


def test_the_same_account_again_keeps_its_id(ask: AskCommand, house: House) -> None:
    first = ask(*add(house), stdin=json.dumps(TOKENS))
    again = ask(*add(house, **{"display-name": "Alice"}), stdin=json.dumps(TOKENS))
    assert (again["id"], again["displayName"]) == (first["id"], "Alice")


@pytest.mark.parametrize("text", ["", " ", "x" * 201])
@pytest.mark.parametrize("option", ["platform-account-id", "display-name"])
def test_an_account_without_a_usable_name_or_id_is_not_added(
    run: RunCommand, ask: AskCommand, house: House, option: str, text: str
) -> None:
    ended = run("--json", *add(house, **{option: text}), stdin=json.dumps(TOKENS))
    rule = {"platform-account-id": "platformAccountId", "display-name": "displayName"}[option]
    assert (ended.code, ended.error["code"], ended.error["rule"]) == (3, "validation_failed", rule)
    assert ask("account", "list") == []


def test_an_account_of_an_unknown_profile_ends_with_3(run: RunCommand, house: House) -> None:
    ended = run("--json", *add(house, profile=UNKNOWN), stdin=json.dumps(TOKENS))
    assert (ended.code, ended.error["code"]) == (3, "not_found")


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("", "body.json"),
        ("access-token-do-not-show", "body.json"),
        ("[]", "body"),
        ("{}", "accessToken"),
        ('{"accessToken": ""}', "accessToken"),
        ('{"accessToken": 7}', "accessToken"),
        ('{"accessToken": "do-not-show", "expires": 7}', "expires"),
        ('{"accessToken": "do-not-show", "expiresAt": "2030-01-02T03:04:05"}', "expiresAt"),
        ('{"accessToken": "do-not-show", "extra": ["do-not-show"]}', "extra"),
    ],
)
def test_tokens_that_cannot_be_read_end_with_3_and_are_not_shown(
    run: RunCommand, house: House, given: str, rule: str
) -> None:
    ended = run("--json", *add(house), stdin=given)
    assert (ended.code, ended.error["code"], ended.error["rule"]) == (3, "validation_failed", rule)
    assert "do-not-show" not in ended.out + ended.err


def connect(house: House, handle: str = "alice.test") -> tuple[str, ...]:
    return ("account", "connect", "bluesky", "--profile", house.profile, "--handle", handle)


@pytest.fixture
def alice(simulator: SimulatorThread) -> dict[str, Any]:
    return simulator.lab.add_account("bluesky", handle="alice.test")


def test_an_account_connects_by_its_app_password(
    ask: AskCommand, alice: dict[str, Any], house: House, folder: Path
) -> None:
    account = ask(*connect(house), stdin=alice["appPassword"] + "\n")
    assert (account["platform"], account["platformAccountId"]) == ("bluesky", alice["did"])
    assert (account["profileId"], account["status"]) == (house.profile, "active")
    assert all(alice["appPassword"].encode() not in file.read_bytes() for file in folder.iterdir())


def test_a_secret_from_another_system_is_without_its_mark_and_line_end(
    run: RunCommand, alice: dict[str, Any], house: House
) -> None:
    ended = run("--json", *connect(house), stdin=f"\ufeff{alice['appPassword']}\r\n")
    assert ended.code == 0, ended.err


def test_a_wrong_app_password_ends_with_4_and_stores_nothing(
    run: RunCommand, alice: dict[str, Any], house: House
) -> None:
    ended = run("--json", *connect(house), stdin="abcd-abcd-abcd-abcd\n")
    assert (ended.code, ended.error["code"]) == (4, "platform_auth_failed")
    assert "abcd-abcd" not in ended.out + ended.err


def test_an_app_password_for_an_unknown_profile_ends_with_3(
    run: RunCommand, alice: dict[str, Any], house: House
) -> None:
    ended = run("--json", *connect(House(house.org, UNKNOWN)), stdin=alice["appPassword"])
    assert (ended.code, ended.error["code"]) == (3, "not_found")


def test_no_app_password_at_all_ends_with_2(run: RunCommand, alice: dict[str, Any], house: House) -> None:
    ended = run(*connect(house), stdin="")
    assert (ended.code, "give the app password on standard input" in ended.err) == (2, True), ended.err


def test_a_platform_that_cannot_be_reached_ends_with_1(run: RunCommand, house: House, folder: Path) -> None:
    (folder / "socialpub.toml").write_text(
        '[security]\nallow_private_networks = true\n[platforms.bluesky]\napi_base = "http://127.0.0.1:1"\n'
    )
    ended = run("--json", *connect(house), stdin="abcd-abcd-abcd-abcd")
    assert (ended.code, ended.error["code"]) == (1, "platform_unavailable")


# --- Migrations --------------------------------------------------------------------------------------------------


def test_migrate_says_from_where_to_where(ask: AskCommand) -> None:
    names = sorted(path.stem for path in find_shipped_directory("migrations").glob("*.py"))
    assert ask("migrate") == {"from": None, "to": names[-1], "applied": names}
    assert ask("migrate") == {"from": names[-1], "to": names[-1], "applied": []}
