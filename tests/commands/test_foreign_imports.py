"""`import --from`: exports of other programs, tried first, told what is lost, undone."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from socialpub.commands.foreign_exports import plain_text
from tests.support.command_data import insert_account, make_organization
from tests.support.command_runner import RunCommand, run_command
from tests.support.import_files import BLUESKY, X, run_export, run_import

Ask = Callable[..., Any]
WHEN = "2035-01-02T03:04:05.000Z"
PLACE = {"id": "i1", "providerIdentifier": "bluesky", "name": BLUESKY, "picture": ""}


@pytest.fixture(autouse=True)
def house(ask: Ask) -> None:
    """An organization with two accounts."""
    _, profile = make_organization(ask)
    insert_account(ask, profile, "bluesky", BLUESKY)
    insert_account(ask, profile, "twitter", X)


def postiz_post(**more: Any) -> dict[str, Any]:
    """A post as Postiz's public API lists it."""
    post = {"id": "cm1", "content": "<p>Hello</p><p>you &amp; me</p>", "publishDate": WHEN, "releaseURL": None}
    post |= {"state": "QUEUE", "intervalInDays": None, "group": "g", "settings": '{"__type": "bluesky"}', "tags": []}
    return post | {"integration": PLACE} | more


def mixpost_post(**more: Any) -> dict[str, Any]:
    """A post as Mixpost's pages show it."""

    def version(account: int, *bodies: str) -> dict[str, Any]:
        content = [{"body": f"<div>{body}</div>", "media": []} for body in bodies]
        return {"post_id": 1, "account_id": account, "is_original": account == 0, "content": content}

    accounts = [
        {"id": 1, "name": BLUESKY, "provider": "bluesky"},
        {"id": 2, "name": "My X", "provider": "twitter"},
        {"id": 3, "name": BLUESKY, "provider": "bluesky"},
    ]
    return {
        "id": "5f3e",
        "status": "SCHEDULED",
        "accounts": accounts,
        "versions": [version(0, "For all"), version(2, "For X"), version(3, "one", "two")],
        "tags": [],
        "scheduled_at": {"date": "2035-07-01", "time": "09:30", "human": ""},
    } | more


def write(folder: Path, value: Any) -> str:
    (folder / "export.json").write_text(json.dumps(value))
    return "export.json"


@pytest.mark.slow
def test_a_postiz_list_is_tried_first_then_imported_once_and_undone(run: RunCommand, ask: Ask, folder: Path) -> None:
    posts = [
        postiz_post(),
        postiz_post(id="cm2", state="PUBLISHED"),
        postiz_post(id="cm3", state="DRAFT"),
        postiz_post(id="cm4", intervalInDays=7),
        postiz_post(),
    ]
    line = (write(folder, {"posts": posts}), "--from", "postiz")
    tried = run_import(run, *line)
    assert (tried["dryRun"], tried["lines"], tried["imported"], tried["left"]) == (True, 5, 0, 4)
    assert [one["line"] for one in tried["leftOut"]] == [2, 3, 4, 5]
    assert "media" in tried["warnings"][0]["message"]
    assert run_export(run) == []
    assert run_import(run, *line, "--yes")["imported"] == 1
    (post,) = run_export(run)
    assert (post["text"], post["scheduledAt"], post["externalId"]) == ("Hello\nyou & me", WHEN, "postiz/cm1")
    again = run_import(run, *line, "--yes")
    assert (again["imported"], again["there"]) == (0, 1)
    assert ask("import", *line, "--undo") == {"file": "export.json", "dryRun": True, "canceled": 1, "kept": 0}
    assert run_export(run)[0]["status"] == "queued"
    with closing(sqlite3.connect(folder / "socialpub.db")) as connection, connection:
        connection.execute("UPDATE post SET status = 'published'")
    kept = run("import", *line, "--undo", "--json")  # a dry run counts what the undo would keep
    assert (kept.json["canceled"], kept.json["kept"], "kept: No post" in kept.err) == (0, 1, True)
    assert run_import(run, *line, "--undo", "--yes")["kept"] == 1
    with closing(sqlite3.connect(folder / "socialpub.db")) as connection, connection:
        connection.execute("UPDATE post SET status = 'queued'")
    undone = run("import", *line, "--undo", "--yes", "--json")
    assert (undone.code, undone.json["canceled"]) == (0, 1)
    assert run_export(run)[0]["status"] == "canceled"
    assert run_import(run, *line, "--undo", "--yes")["canceled"] == 0
    assert run_import(run, *line, "--yes")["imported"] == 1  # its external id is free again


@pytest.mark.slow
def test_three_copies_that_are_imported_at_once_give_each_post_once(run: RunCommand, folder: Path) -> None:
    content = json.dumps([postiz_post(id=f"cm{number}", content=f"Post {number}") for number in range(60)])
    copies = ["one.json", "two.json", "three.json"]
    for name in copies:
        (folder / name).write_text(content)
    line = ("--json", "import", "--from", "postiz", "--yes")
    with ThreadPoolExecutor(len(copies)) as all_:
        ended = list(all_.map(lambda name: run_command(*line, name, cwd=folder), copies))
    assert [one.code for one in ended] == [0, 0, 0], [one.err for one in ended]
    assert (sum(one.json["imported"] for one in ended), sum(one.json["there"] for one in ended)) == (60, 120)
    assert len(run_export(run)) == 60


def test_a_mixpost_post_is_one_for_each_account_in_its_zone(run: RunCommand, folder: Path) -> None:
    line = (write(folder, {"data": [mixpost_post(), mixpost_post(id="d", status="DRAFT")]}), "--from", "mixpost")
    assert run_import(run, *line, code=1)["problems"][0]["message"].endswith("or give --zone.")
    line += ("--zone", "Europe/Berlin")
    told = run_import(run, *line, code=1)
    assert [(one["line"], one["code"]) for one in told["problems"]] == [(2, "not_found")]  # nothing is called My X
    assert [one["line"] for one in told["leftOut"]] == [3, 4]
    assert "thread of 2" in told["leftOut"][0]["message"]
    assert run_import(run, *line, "--map", f"My X=twitter {X}", "--yes")["imported"] == 2
    posts = {post["externalId"]: post for post in run_export(run)}
    texts = {name: post["text"] for name, post in posts.items()}
    assert texts == {"mixpost/5f3e/1": "For all", "mixpost/5f3e/2": "For X"}
    assert {post["scheduledAt"] for post in posts.values()} == {"2035-07-01T07:30:00.000Z"}


@pytest.mark.parametrize("name", ["postiz", "mixpost"])
@pytest.mark.parametrize("value", ["no JSON", {"else": 1}, 5])
def test_what_is_no_export_is_refused_and_writes_nothing(run: RunCommand, folder: Path, name: str, value: Any) -> None:
    (folder / "export.json").write_text(value if isinstance(value, str) else json.dumps(value))
    ended = run("import", "export.json", "--from", name, "--yes", "--json")
    assert (ended.code, "error" in ended.json) == (3, True), ended.err


@pytest.mark.matrix
@pytest.mark.parametrize("post", [{}, 5, None, {"id": "x", "state": "QUEUE"}, {"id": "x", "status": "SCHEDULED"}])
@pytest.mark.parametrize("name", ["postiz", "mixpost"])
def test_a_row_that_is_no_post_is_a_problem_of_its_line(run: RunCommand, folder: Path, name: str, post: Any) -> None:
    told = run_import(run, write(folder, [post]), "--from", name, "--yes", code=1)
    assert (told["imported"], told["problems"][0]["line"]) == (0, 1)


def test_a_format_that_is_not_known_is_refused_and_said_so(run: RunCommand, folder: Path) -> None:
    ended = run("import", write(folder, []), "--from", "buffer")
    assert (ended.code, "no export of its queue" in ended.err) == (3, True)
    assert run("import", "export.json", "--yes").code == 2
    assert run("import", "export.json", "--from", "hootsuite").code == 2


@pytest.mark.parametrize(
    "content, text",
    [
        ("plain <3 & text", "plain <3 & text"),
        ("<p>a</p><p>b</p>", "a\nb"),
        ("<div>a<br>b</div>", "a\nb"),
        ("<ul><li>one</li><li>two &lt;3</li></ul>", "- one\n- two <3"),
        ('<p>see <a href="https://example.org">this</a></p>', "see this"),
    ],
)
def test_html_becomes_text_with_its_lines(content: str, text: str) -> None:
    assert plain_text(content) == text
