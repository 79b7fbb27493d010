"""`status`: due, late, failed and paused work, and an exit code for health."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.runtime import DAY_MS
from socialpub.domain.operations import server_status
from socialpub.domain.operations.server_status import ServerStatus
from socialpub.store.schema.models import Account, Instance, Intent, Post
from tests.support.app_server import AppServer, Person, format_instant
from tests.support.command_runner import CommandProcess, CommandResult, RunCommand, read_address, run_command
from tests.support.publishing_state import schedule_post


def looked(server: AppServer, *, running: bool = True) -> ServerStatus:
    settings, now = server.service.runtime.settings, server.clock.now_ms()
    return server.service.read(lambda: server_status.load_status(settings, now, running=running)).result()


def set_to(server: AppServer, post: str, **columns: Any) -> None:
    server.service.write(lambda tx: Post.update(**columns).where(Post.id == post).execute()).result()


def failed(server: AppServer, alice: Person, error: str, **columns: Any) -> str:
    post = schedule_post(server, alice)
    set_to(server, post, status="failed", error=error, updated_at=server.clock.now_ms(), **columns)
    return post


def test_a_server_with_nothing_wrong_is_well(server: AppServer, alice: Person) -> None:
    first, second = schedule_post(server, alice, seconds=60), schedule_post(server, alice, seconds=120)
    found = looked(server)
    assert (found["ok"], found["problems"]) == (True, [])
    assert [post["id"] for post in found["next"]] == [first, second]
    assert found["next"][0]["account"] == alice.accounts["bluesky"]["displayName"]
    assert (found["overdue"], found["publishing"]) == ({"count": 0, "since": None}, 0)


def test_what_is_late_is_counted_and_said(server: AppServer, alice: Person) -> None:
    post = schedule_post(server, alice)
    due = server.clock.now_ms() - 10 * 60_000
    set_to(server, post, scheduled_at=due)
    found = looked(server)
    assert found["overdue"] == {"count": 1, "since": format_instant(due)}
    assert found["problems"] == [f"1 post overdue, the oldest since {format_instant(due)}."]


def test_what_is_on_its_way_is_not_late(server: AppServer, alice: Person) -> None:
    set_to(server, schedule_post(server, alice), status="publishing", scheduled_at=server.clock.now_ms() - 10 * 60_000)
    found = looked(server)
    assert (found["publishing"], found["ok"]) == (1, True)


def test_failures_are_grouped_by_their_cause(server: AppServer, alice: Person) -> None:
    for _ in range(3):
        newest = failed(server, alice, '{"code": "content_rejected", "rule": "bluesky.text.max"}')
    failed(server, alice, '{"code": "platform_unavailable"}')
    old = failed(server, alice, '{"code": "unauthorized"}')
    set_to(server, old, updated_at=server.clock.now_ms() - DAY_MS - 1000)
    first, second = looked(server)["failing"]
    assert (first["count"], first["code"], first["rule"]) == (3, "content_rejected", "bluesky.text.max")
    assert first["newest"] == newest
    assert (second["count"], second["code"], second["rule"]) == (1, "platform_unavailable", None)
    assert looked(server)["problems"][0].startswith("3 posts failed or rejected within a day on bluesky ")


def test_accounts_that_need_their_owner_are_named(server: AppServer, alice: Person) -> None:
    server.service.write(
        lambda tx: Account.update(status="revoked").where(Account.id == alice.bluesky).execute()
    ).result()
    found = looked(server)
    assert [(row["id"], row["status"]) for row in found["accounts"]] == [(alice.bluesky, "revoked")]
    assert found["problems"][0].endswith("needs attention: its access has expired or was revoked.")


def test_an_unknown_outcome_waits_for_somebody(server: AppServer, alice: Person) -> None:
    assert looked(server)["unknown"] == 0
    post = failed(server, alice, '{"code": "publish_failed", "rule": "publish.outcome_unknown"}')
    row = {"post": post, "account": alice.bluesky, "step": "publish", "number": 1, "outcome": "unknown"}
    columns = {field.name for field in Intent._meta.sorted_fields if not field.null and field.default is None} - {"id"}
    filled = {name: 0 if name.endswith("_at") else "" for name in columns} | row
    server.service.write(lambda tx: Intent.insert(**filled).execute()).result()
    assert looked(server)["unknown"] == 1


@pytest.mark.parametrize("hours, silent", [(1, False), (3, True)])
def test_a_server_without_a_sign_of_life_is_told(server: AppServer, alice: Person, hours: int, silent: bool) -> None:
    seen = server.clock.now_ms() - hours * 3_600_000
    server.service.write(lambda tx: Instance.update(seen_at=seen).execute()).result()
    assert any("not recorded a heartbeat" in problem for problem in looked(server)["problems"]) == silent


def test_no_sign_of_life_is_missed_while_the_clock_is_in_doubt(server: AppServer, alice: Person) -> None:
    """Heartbeats have no time then, and by a clock that was set ahead the last one is old at once."""
    seen = server.clock.now_ms() - 24 * 3_600_000
    server.service.write(lambda tx: Instance.update(seen_at=seen, paused="clock").execute()).result()
    (problem,) = looked(server)["problems"]
    assert problem.startswith("Publishing is paused (clock).")


def test_what_is_not_served_or_paused_is_a_problem(server: AppServer, alice: Person) -> None:
    server.service.write(lambda tx: Instance.update(paused="restored").execute()).result()
    first, second = looked(server, running=False)["problems"]
    assert first == "No server runs on this database: nothing is published."
    assert second.startswith("Publishing is paused (restored). Run socialpub resume --after-restore ")


# --- The command -------------------------------------------------------------------------------------------------


def asked(folder: Path, *arguments: str) -> CommandResult:
    return run_command("status", *arguments, cwd=folder)


def test_beside_a_running_server_it_says_that_all_is_well(start: Callable[..., CommandProcess], folder: Path) -> None:
    server = start("serve", "--port", "0")
    read_address(server)
    ended = asked(folder, "--json")
    assert (ended.code, ended.json["ok"], ended.json["server"]["running"]) == (0, True, True)
    ended = asked(folder)
    assert ended.out.startswith("A server runs on this database. It last responded at 20")
    assert ended.out.splitlines()[-2] == "Nothing needs attention."
    assert server.stop() == 0


def test_without_a_server_it_ends_with_1_and_says_why(run: RunCommand, folder: Path) -> None:
    run("org", "create", "Acme")
    ended = run("status", "--json")
    assert (ended.code, ended.json["problems"]) == (1, ["No server runs on this database: nothing is published."])
    ended = run("status")
    assert ended.code == 1
    assert "FAIL  No server runs on this database" in ended.out


def test_it_changes_nothing(run: RunCommand, folder: Path) -> None:
    run("org", "create", "Acme")
    with closing(sqlite3.connect(folder / "socialpub.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = (folder / "socialpub.db").read_bytes()
    run("status")
    assert (folder / "socialpub.db").read_bytes() == before


def test_where_there_is_no_database_none_is_made(run: RunCommand, folder: Path) -> None:
    ended = run("status", "--json")
    assert (ended.code, list(folder.iterdir())) == (3, [])
    assert ended.error["message"] == (
        f"socialpub.db does not exist. The settings were read from no file: {folder}/socialpub.toml does not exist "
        "(set another one with --config)."
    )
