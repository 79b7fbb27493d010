"""`keys rotate` and `keys forget`: a new master key, and a start without a lost one."""

from __future__ import annotations

import ast
import base64
import json
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.security.crypto import MasterKey, parse_master_keys
from socialpub.domain.context import platform_sites
from socialpub.domain.operations import lost_key
from socialpub.store.queries.encrypted_columns import ENCRYPTED_COLUMNS
from socialpub.store.schema.models import PlatformApp
from tests.support.app_server import AppServer, Person
from tests.support.backup_commands import backup_command
from tests.support.command_runner import CommandResult, RunCommand, run_command
from tests.support.media_files import picture
from tests.support.program_source import parse_file
from tests.support.sealed_secrets import key_ids_in_use
from tests.support.webhook_endpoints import ENDPOINTS, register_endpoint

ROOT = Path(__file__).parents[2] / "socialpub"
HOOK = "https://127.0.0.1:9/hook"
CHANNEL = {"to": {"kind": "ntfy", "topic": "a-name-that-nobody-guesses", "url": "https://127.0.0.1:9"}}
COOKIES = {
    "web/dashboard/parts/layout.py",
    "web/dashboard/sign_in.py",
    "web/dashboard/totp.py",
}  # sealed for a moment, in a browser


def keys_of(server: AppServer) -> list[MasterKey]:
    return parse_master_keys((server.home / "master.key").read_text())


def publish(person: Person) -> str:
    answer = person.api.post("/v1/posts", json={"text": "hello", "targets": [{"accountId": person.bluesky}]})
    return str(answer.json()["status"])


@pytest.fixture
def furnished(server: AppServer, alice: Person) -> Callable[[], dict[str, Any]]:
    """Whatever is sealed; and what has to stay as it is whatever master key seals."""
    kept = {"Idempotency-Key": "an-endpoint"}
    first = alice.api.post(ENDPOINTS, json={"url": HOOK}, headers=kept).json()
    assert alice.api.post("/v1/notification-channels", json=CHANNEL).status_code == 201
    server.service.write(
        lambda tx: PlatformApp.insert(
            id="threads",
            client_id="an-app",
            secret=platform_sites.encrypt_secret(server.service.runtime.vault, "threads", "its-secret"),
            created_at=1,
            updated_at=1,
        ).execute()
    ).result()
    for shade in range(3):
        file = ("a.png", picture("PNG", (8, 8 + shade)), "image/png")
        assert alice.api.post("/v1/media", files={"file": file}).status_code == 201
    page = alice.api.get("/v1/media", params={"limit": 1}).json()

    def same() -> dict[str, Any]:
        again = alice.api.post(ENDPOINTS, json={"url": HOOK}, headers=kept)
        onward = alice.api.get("/v1/media", params={"limit": 1, "cursor": page["nextCursor"]})
        image = alice.api.get(page["data"][0]["url"].removeprefix(server.url))
        return {"secret": again.json()["signingSecret"], "page": onward.status_code, "image": image.status_code}

    assert same() == {"secret": first["signingSecret"], "page": 200, "image": 200}
    return same


# --- Rotating --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_rotation_beside_a_running_server_breaks_nothing(
    server: AppServer, alice: Person, furnished: Callable[[], dict[str, Any]]
) -> None:
    before, (old,) = furnished(), keys_of(server)
    made = backup_command(server, "keys", "rotate")
    assert (made.code, made.json["was"], made.json["left"]) == (0, old.id, []), made.err
    (new,) = keys_of(server)
    assert (made.json["keyId"], new.id != old.id) == (new.id, True)

    assert key_ids_in_use(server.home / "socialpub.db") == dict.fromkeys(
        (
            "instance.signing_key",
            "account.secret",
            "platform_app.secret",
            "webhook_endpoint.secret",
            "notification_channel.secret",
            "idempotency.body",
        ),
        {new.id},
    )
    assert made.json["sealed"] == 6
    assert furnished() == before
    assert publish(alice) == "published"
    assert alice.api.get("/readyz").status_code == 200
    register_endpoint(alice, HOOK + "/2")
    assert key_ids_in_use(server.home / "socialpub.db")["webhook_endpoint.secret"] == {new.id}

    aside = server.home / f"master.key.{old.id}"
    assert made.json["aside"] == [str(aside)]
    assert parse_master_keys(aside.read_text()) == [old]
    assert {stat.S_IMODE(path.stat().st_mode) for path in server.home.glob("master.key*")} == {0o600}
    assert str(aside) in made.json["next"]


def test_after_a_rotation_a_server_starts_and_links_from_before_are_good(
    server: AppServer, alice: Person, furnished: Callable[[], dict[str, Any]]
) -> None:
    before = furnished()
    assert backup_command(server, "keys", "rotate").code == 0
    with server.down(alice):
        pass
    assert furnished() == before
    assert publish(alice) == "published"
    assert server.service.sites["threads"].client_secret == "its-secret"


def test_links_that_an_older_socialpub_signed_stay_good(
    server: AppServer, alice: Person, furnished: Callable[[], dict[str, Any]]
) -> None:
    """Its signatures were made with the master key itself: the first start takes that over, for good."""
    with server.down(alice):
        with closing(sqlite3.connect(server.home / "socialpub.db")) as found, found:
            found.execute("UPDATE instance SET signing_key = NULL")
        assert backup_command(server, "keys", "rotate").code == 0
    assert furnished()["page"] == 200
    assert furnished()["image"] == 200


def test_a_rotation_writes_to_the_file_that_a_link_leads_to(server: AppServer, alice: Person, tmp_path: Path) -> None:
    """As where the key is on another disk: the link stays, and both names hold the new key."""
    link, real = server.home / "master.key", tmp_path / "vault" / "real.key"
    (old,) = keys_of(server)
    real.parent.mkdir()
    shutil.move(link, real)
    (tmp_path / "middle").symlink_to("vault/real.key")
    link.symlink_to(tmp_path / "middle")
    made = backup_command(server, "keys", "rotate")
    assert (made.code, made.json["aside"]) == (0, [f"{link}.{old.id}"]), made.err
    assert link.is_symlink()
    assert [key.id for key in parse_master_keys(real.read_text())] == [made.json["keyId"]]
    assert (stat.S_IMODE(real.stat().st_mode), [*real.parent.iterdir()]) == (0o600, [real])
    assert publish(alice) == "published"
    with server.down(alice):
        pass
    assert publish(alice) == "published"


def test_a_backup_from_before_says_where_its_key_is(server: AppServer, alice: Person, tmp_path: Path) -> None:
    (old,), file, home = keys_of(server), tmp_path / "b.zip", tmp_path / "elsewhere"
    assert backup_command(server, "backup", str(file)).code == 0
    assert backup_command(server, "keys", "rotate").code == 0
    assert backup_command(server, "restore", str(file), database=home / "socialpub.db").code == 0
    for path in server.home.glob("master.key*"):
        shutil.copy(path, home)
    refused = backup_command(server, "account", "list", database=home / "socialpub.db")
    assert f"it is in {home}/master.key.{old.id}, copy it here" in refused.err
    shutil.copy(home / f"master.key.{old.id}", home / "master.key")
    assert backup_command(server, "account", "list", database=home / "socialpub.db").code == 0


def test_a_file_with_two_keys_is_a_rotation_that_goes_on(server: AppServer, alice: Person) -> None:
    (old,) = keys_of(server)
    new = MasterKey(b"n" * 32)
    path = server.home / "master.key"
    path.write_text(f"{base64.b64encode(new.raw).decode()}\n{path.read_text()}")
    assert publish(alice) == "published"
    server.restart(alice)
    assert publish(alice) == "published"
    made = backup_command(server, "keys", "rotate")
    assert (made.code, made.json["keyId"], made.json["was"]) == (0, new.id, new.id)
    assert made.json["aside"] == [f"{path}.{old.id}"]
    assert keys_of(server) == [new]


def test_a_value_that_no_key_opens_keeps_the_old_key(server: AppServer, alice: Person) -> None:
    (old,) = keys_of(server)
    with closing(sqlite3.connect(server.home / "socialpub.db")) as found, found:
        found.execute("UPDATE account SET secret = substr(secret, 1, length(secret) - 4) || 'AAAA'")
    made = backup_command(server, "keys", "rotate")
    assert (made.code, made.json["left"], made.json["aside"]) == (1, [old.id], [])
    assert "cannot be re-encrypted" in made.err
    assert len(keys_of(server)) == 2


def test_keys_of_the_settings_are_rotated_by_a_restart_and_the_command(run: RunCommand, folder: Path) -> None:
    one, two = (base64.b64encode(part * 32).decode() for part in (b"a", b"b"))
    settings = folder / "socialpub.toml"

    def named(*keys: str) -> None:
        settings.write_text(f"[security]\nencryption_keys = {json.dumps(keys)}\n")
        settings.chmod(0o600)

    named(one)
    assert run("org", "create", "Acme").code == 0
    profile = run("profile", "list", "--json").json[0]["id"]
    add = ("account", "add", "--profile", profile, "--platform", "threads", "--platform-account-id", "1")
    assert run(*add, stdin='{"accessToken": "made-up"}').code == 0
    ended = run("keys", "rotate")
    assert (ended.code, "openssl rand -base64 32" in ended.err) == (3, True)
    named(two, one)
    ended = run("keys", "rotate", "--json")
    assert (ended.code, ended.json["sealed"], ended.json["aside"]) == (0, 1, []), ended.err
    assert "remove all keys but the first" in ended.json["next"]
    named(two)
    assert run("account", "list").code == 0
    named(one)
    assert run("account", "list").code == 1


# --- Forgetting ------------------------------------------------------------------------------------------------------


def forget(server: AppServer, *words: str) -> CommandResult:
    return backup_command(server, "keys", "forget", *words)


def test_without_a_lost_key_accounts_reconnect_and_the_log_stays(
    server: AppServer, alice: Person, furnished: Callable[[], dict[str, Any]]
) -> None:
    assert publish(alice) == "published"
    server.stop()
    (server.home / "master.key").unlink()
    asked = forget(server)
    assert asked.code == 3
    assert "authorization of 1 accounts" in asked.err
    assert "1 platform apps" in asked.err
    assert "1 webhook endpoints" in asked.err
    assert "1 notification channels" in asked.err
    assert "--yes" in asked.err
    assert not (server.home / "master.key").exists()

    done = forget(server, "--yes")
    assert (done.code, done.json["accounts"], done.json["webhooks"], done.json["channels"]) == (0, 1, 1, 1), done.err
    server.start()
    assert not server.service.sites["threads"].client_id
    assert [row["client_id"] for row in server.rows(PlatformApp)] == ["an-app"]
    alice.api = server.api(alice.key)
    (account,) = alice.api.get("/v1/accounts").json()["data"]
    assert account["status"] == "revoked"
    (told,) = [data for type_, data in server.events() if type_ == "token.revoked"]
    assert told["reason"] == lost_key.ACCOUNT_MESSAGE
    (post,) = alice.api.get("/v1/posts").json()["data"]
    assert post["status"] == "published"
    (endpoint,) = alice.api.get(ENDPOINTS).json()["data"]
    assert (endpoint["active"], endpoint["lastFailureReason"]) == (False, lost_key.ENDPOINT_MESSAGE)
    assert alice.api.get("/v1/notification-channels").json()["data"] == []
    again = alice.api.post("/v1/posts", json={"text": "again", "targets": [{"accountId": alice.bluesky}]}).json()
    assert again["results"][0]["error"]["rule"] == "account.reconnect_required"
    assert publish_after_reconnecting(server, alice) == "published"
    (key,) = keys_of(server)
    assert set.union(*key_ids_in_use(server.home / "socialpub.db").values()) == {key.id}


def publish_after_reconnecting(server: AppServer, alice: Person) -> str:
    server.connect_bluesky(alice)
    return publish(alice)


def test_nothing_is_forgotten_while_the_key_is_there_or_a_server_runs(server: AppServer, alice: Person) -> None:
    assert "there is nothing to forget" in forget(server, "--yes").err
    server.stop()
    ended = forget(server, "--yes")
    assert (ended.code, "there is nothing to forget" in ended.err) == (3, True)


def test_a_person_who_does_not_say_forget_changes_nothing(server: AppServer, alice: Person) -> None:
    server.stop()
    (server.home / "master.key").unlink()
    before = (server.home / "socialpub.db").read_bytes()
    ended = run_command("keys", "forget", "--database", str(server.home / "socialpub.db"), cwd=server.home)
    assert ended.code == 3
    assert (server.home / "socialpub.db").read_bytes() == before


# --- Nothing sealed is left out --------------------------------------------------------------------------------------


def test_every_place_that_seals_is_in_the_table() -> None:
    """Whoever seals something in a new column adds it to `ENCRYPTED_COLUMNS`, and says what becomes of it in `LOST`."""
    tables = {each.table for each in ENCRYPTED_COLUMNS}
    seals = {path: tables_in(path) for path in sorted(ROOT.rglob("*.py")) if ".vault.seal(" in path.read_text()}
    lacking = {
        str(path.relative_to(ROOT)): sorted(found)
        for path, found in seals.items()
        if not found & tables and str(path.relative_to(ROOT)) not in COOKIES
    }
    assert lacking == {}
    assert {(each.table, each.column) for each in ENCRYPTED_COLUMNS} == set(lost_key.DROP_HANDLERS)


def tables_in(path: Path) -> set[str]:
    """The first words of the triples in a module: the tables whose rows its values are bound to."""
    return {
        first.value
        for node in ast.walk(parse_file(path))
        if isinstance(node, ast.Tuple) and len(node.elts) == 3
        for first in node.elts[:1]
        if isinstance(first, ast.Constant) and isinstance(first.value, str)
    }
