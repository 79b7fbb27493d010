"""`export` and `import`: content, errors by line, and no duplicate posts."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from socialpub.commands import import_export
from tests.support.command_data import audit_rows, insert_account, make_organization
from tests.support.command_runner import CommandProcess, CommandResult, RunCommand, make_client, read_address
from tests.support.import_files import BLUESKY, LATER, X, make_line, run_export, run_import, write_lines
from tests.support.terminal import read_terminal_until, start_at_terminal

Ask = Callable[..., Any]
TEXTS = ["Hello", 'Commas, "quotes"; and\nlines', "Emoji 🎉 and ümlauts, 日本語", " spaces around ", "=1+1", "\ttab"]
TEXTS += ["'=1+1", "'quoted'", "@alice.test hello", "-1", "+1", "''-x"]


@pytest.fixture
def house(ask: Ask) -> str:
    """An organization with two accounts."""
    org, profile = make_organization(ask)
    insert_account(ask, profile, "bluesky", BLUESKY)
    insert_account(ask, profile, "twitter", X)
    return org


# --- Out -----------------------------------------------------------------------------------------------------------


def test_an_export_has_the_posts_as_the_api_shows_them(run: RunCommand, ask: Ask, house: str, folder: Path) -> None:
    run_import(run, write_lines(folder, make_line(1), make_line(2, account=X)))
    assert ask("export", "out.ndjson") == {"file": "out.ndjson", "lines": 2}
    lines = [json.loads(line) for line in (folder / "out.ndjson").read_text().splitlines()]
    assert {line["text"] for line in lines} == {"post 1", "post 2"}
    for line in lines:
        assert (line["status"], line["scheduledAt"], line["url"]) == ("queued", LATER, None)
        assert line["account"]["platformAccountId"] in (BLUESKY, X)
    assert (folder / "out.ndjson").stat().st_mode & 0o777 == 0o600
    assert not (folder / "out.ndjson.part").exists()


def test_an_export_is_narrowed(run: RunCommand, house: str, folder: Path) -> None:
    run_import(run, write_lines(folder, make_line(1), make_line(2, account=X)))
    assert [line["text"] for line in run_export(run, "--account", "twitter 7")] == ["post 2"]
    assert run_export(run, "--status", "published", "--status", "failed") == []
    assert len(run_export(run, "--status", "queued", "--after", "2020-01-01T00:00:00Z")) == 2
    assert run_export(run, "--before", "2020-01-01T00:00:00Z") == []


@pytest.mark.parametrize("option", ["--after", "--before"])
def test_an_export_refuses_what_is_no_time(run: RunCommand, house: str, folder: Path, option: str) -> None:
    for file in ("out.csv", "-"):
        refused = run("export", file, "--csv", option, "2026-01-01", "--json")
        assert (refused.code, refused.error["rule"]) == (3, option.removeprefix("--")), refused.err
    assert not (folder / "out.csv").exists()


def test_an_export_of_accounts_takes_no_filter_of_posts(run: RunCommand, house: str, folder: Path) -> None:
    assert run("export", "out.csv", "--accounts", "--status", "queued").code == 2
    assert not (folder / "out.csv").exists()


def test_a_file_name_that_is_no_utf_8_is_told_with_escapes(run: RunCommand, house: str, folder: Path) -> None:
    name = os.fsdecode(b"\xff.ndjson")
    ended = run("export", name, "--json")
    assert (ended.code, ended.out) == (0, '{"file": "\\udcff.ndjson", "lines": 0}\n')


def test_csv_has_a_line_of_names_and_a_row_for_each_post(run: RunCommand, house: str, folder: Path) -> None:
    run_import(run, write_lines(folder, *(make_line(text=text) for text in TEXTS)))
    rows = list(csv.DictReader(io.StringIO(run("export", "-", "--csv").out)))
    assert {row["text"].removeprefix("'") for row in rows} >= {"Hello", "=1+1", "@alice.test hello"}
    assert set(rows[0]) == set(import_export.COLUMNS)


@pytest.mark.parametrize("what", [(), ("--accounts",)], ids=["posts", "accounts"])
def test_no_cell_of_a_csv_begins_as_a_formula(
    run: RunCommand, ask: Ask, house: str, folder: Path, what: tuple[str, ...]
) -> None:
    """Spreadsheets run them, and the names of accounts are made by others."""
    run_import(run, write_lines(folder, *(make_line(text=text) for text in TEXTS)))
    with closing(sqlite3.connect(folder / "socialpub.db")) as database, database:
        database.execute("UPDATE account SET display_name = '=HYPERLINK(\"https://evil.example\")'")
    cells = [cell for row in csv.reader(io.StringIO(run("export", "-", "--csv", *what).out)) for cell in row]
    assert any("HYPERLINK" in cell for cell in cells)
    assert [cell for cell in cells if cell[:1] in tuple("=+-@\t\r")] == []


@pytest.mark.parametrize("name", ["accounts.ndjson", "accounts.csv"])
def test_accounts_are_exported_without_their_secrets(
    run: RunCommand, ask: Ask, house: str, folder: Path, name: str
) -> None:
    assert ask("export", name, "--accounts")["lines"] == 2
    text = (folder / name).read_text()
    assert BLUESKY in text
    assert "do-not-show" not in text


def test_an_export_writes_over_nothing(run: RunCommand, house: str, folder: Path) -> None:
    (folder / "out.ndjson").write_text("mine")
    ended = run("--json", "export", "out.ndjson")
    assert (ended.code, (folder / "out.ndjson").read_text()) == (3, "mine")
    assert "overwrites nothing" in ended.error["message"]


# --- In ------------------------------------------------------------------------------------------------------------


def test_posts_are_scheduled_and_each_is_an_act(run: RunCommand, house: str, folder: Path) -> None:
    report = run_import(run, write_lines(folder, make_line(1), make_line(2)))
    counted = {"lines": 2, "imported": 2, "there": 0, "invalid": 0}
    assert report == {"file": "posts.ndjson", **counted, "problems": [], "warnings": []}
    assert [verb for verb, _ in audit_rows(folder)][-2:] == ["command bring"] * 2


def test_the_whole_file_is_looked_through_before_anything_is_written(run: RunCommand, house: str, folder: Path) -> None:
    lines = [
        make_line(1),
        "not JSON",
        "[1]",
        make_line(2, account="nobody"),
        make_line(3, text="x" * 301),
        make_line(4, scheduledAt="2001-01-01T00:00:00Z"),
        {"account": BLUESKY, "text": "no time"},
        make_line(5, colour="red"),
        {"text": "no account", "scheduledAt": LATER},
        make_line(6, firstComment={"text": "first"}),
        make_line(7, options={"nonsense": 1}),
        make_line(8, threadPosition=0),
        make_line(9, platform="twitter"),
        make_line(10, platform=["bluesky"]),
        make_line(11, platform=" Bluesky"),
    ]
    report = run_import(run, write_lines(folder, *lines), code=1)
    assert [(problem["line"], problem["rule"]) for problem in report["problems"]] == [
        (2, "line"),
        (3, "line"),
        (4, None),
        (5, "bluesky.text.max_graphemes"),
        (6, "scheduledAt.future"),
        (7, "scheduledAt"),
        (8, "colour"),
        (9, "account"),
        (10, "scheduledAt.no_first_comment"),
        (11, report["problems"][-4]["rule"]),
        (12, "threadPosition"),
        (13, "platform"),
        (14, "platform"),
    ]
    assert (report["lines"], report["invalid"], report["imported"]) == (15, 13, 0)
    assert all(problem["message"] for problem in report["problems"])
    assert run_export(run) == []
    said = run("import", "posts.ndjson").err
    assert "posts.ndjson:2: The line is not JSON" in said
    assert "posts.ndjson:4: There is no account called 'nobody'." in said


def test_what_is_right_is_imported_where_that_is_asked_for(run: RunCommand, house: str, folder: Path) -> None:
    report = run_import(run, write_lines(folder, make_line(1), "nonsense", make_line(2)), "--skip-invalid")
    assert (report["imported"], report["invalid"]) == (2, 1)
    assert len(run_export(run)) == 2


def test_a_check_writes_nothing(run: RunCommand, house: str, folder: Path) -> None:
    report = run_import(run, write_lines(folder, make_line(1)), "--check")
    assert (report["lines"], report["imported"], run_export(run)) == (1, 0, [])


def test_the_same_again_changes_nothing(run: RunCommand, house: str, folder: Path) -> None:
    name = write_lines(folder, make_line(1), make_line(2), make_line(1), make_line(1, account=X))
    first, again = run_import(run, name), run_import(run, name)
    assert (first["imported"], first["there"]) == (3, 1)
    assert (again["imported"], again["there"]) == (0, 4)
    assert len(run_export(run)) == 3


def test_more_lines_than_a_step_takes(run: RunCommand, house: str, folder: Path) -> None:
    lines = [make_line(number % 40) for number in range(50)]
    report = run_import(run, write_lines(folder, *lines))
    assert (report["lines"], report["imported"], report["there"]) == (50, 40, 10)


def test_warnings_are_told_by_their_line(run: RunCommand, house: str, folder: Path) -> None:
    run_import(run, write_lines(folder, make_line(1)))
    again = run_import(run, write_lines(folder, make_line(1, scheduledAt="2035-02-02T00:00:00Z"), name="more.ndjson"))
    assert [warning["line"] for warning in again["warnings"]] == [1]
    assert again["imported"] == 1


def test_a_file_that_is_not_there_or_is_being_imported_is_named(run: RunCommand, house: str, folder: Path) -> None:
    assert "cannot be read" in run("--json", "import", "gone.ndjson").error["message"]
    name = write_lines(folder, make_line(1))
    with import_export._open_locked(folder / name):
        ended = run("--json", "import", name)
    assert (ended.code, ended.error["message"]) == (3, "posts.ndjson is already being imported")


def test_a_pipe_is_refused_by_an_import(run: RunCommand, house: str) -> None:
    reader, writer = os.pipe()
    with open(reader, "rb"), open(writer, "wb"):
        refused = run("import", f"/dev/fd/{reader}", "--json")
    assert (refused.code, "is a pipe" in refused.error["message"]) == (3, True)


@pytest.mark.parametrize("line", [("export",), ("backup",), ("status", "--database")], ids=" ".join)
def test_a_name_that_no_file_can_have_is_told(run: RunCommand, house: str, folder: Path, line: tuple[str, ...]) -> None:
    """As is any other error of the system that nothing else explains."""
    ended = run(*line, str(folder / ("a" * 300)), "--json")
    assert (ended.code, ended.error["message"][-20:]) == (1, ": file name too long")


def test_csv_lines_are_named_where_they_begin(run: RunCommand, house: str, folder: Path) -> None:
    text = f'\ufeffaccount,scheduledAt,text,media\n{BLUESKY},{LATER},"two\nlines",\nnobody,{LATER},x,\n{BLUESKY},,x,\n'
    (folder / "posts.csv").write_text(text + f"{X},{LATER},x,[\n")
    report = run_import(run, "posts.csv", "--skip-invalid")
    assert [problem["line"] for problem in report["problems"]] == [4, 5, 6]
    assert [line["text"] for line in run_export(run)] == ["two\nlines"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.ndjson", "out.csv"])
def test_what_is_exported_is_the_same_once_it_is_imported(
    run: RunCommand, ask: Ask, house: str, folder: Path, name: str
) -> None:
    """On another server, which knows the accounts by other ids."""
    media = [{"kind": "image", "url": "https://example.com/a.jpg", "altText": "an image"}]
    lines = [make_line(text=text) for text in TEXTS] + [make_line(1, media=media), make_line(2, account=X)]
    lines.append(make_line(3, options={"langs": ["de", "en"]}))
    assert run_import(run, write_lines(folder, *lines))["imported"] == len(lines)
    ask("export", name)
    before = run_export(run)
    other = ("--database", "other/socialpub.db", "--data-dir", "other")
    profile = ask("org", "create", "Acme", *other) and ask("profile", "list", *other)[0]["id"]
    for platform, known in (("bluesky", BLUESKY), ("twitter", X)):
        given = ("--profile", profile, "--platform", platform, "--platform-account-id", known)
        ask("account", "add", *given, *other, stdin=json.dumps({"accessToken": "access-token-do-not-show"}))
    assert run_import(run, name, *other)["imported"] == len(lines)
    after = run_export(run, *other)
    assert sorted(map(carried, before)) == sorted(map(carried, after))


def carried(line: dict[str, Any]) -> str:
    """What of a post goes along."""
    kept = ("text", "scheduledAt", "mediaRefs", "options", "platform")
    return json.dumps([line[name] for name in kept] + [line["account"]["platformAccountId"]])


def test_what_was_canceled_may_come_again(run: RunCommand, ask: Ask, house: str, folder: Path) -> None:
    name = write_lines(folder, make_line(1))
    run_import(run, name)
    ended = run("account", "disconnect", BLUESKY, "--cancel", "--yes")
    assert "1 post is scheduled on it and will be canceled." in ended.err
    made = ask("profile", "list")[0]["id"]
    insert_account(ask, made, "bluesky", BLUESKY)
    assert run_import(run, name)["imported"] == 1


@pytest.mark.slow
def test_a_file_of_any_length_takes_no_more_memory(folder: Path) -> None:
    line = json.dumps(make_line(text="x" * 1000)).encode() + b"\n"
    (folder / "many.ndjson").write_bytes(line * 40_000)
    with open(folder / "many.ndjson", "rb") as raw:
        tracemalloc.start()
        count = sum(1 for _ in import_export._lines(folder / "many.ndjson", raw))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert count == 40_000
    assert most < 2_000_000


def test_a_line_without_an_end_is_not_read_whole(folder: Path) -> None:
    (folder / "long.ndjson").write_bytes(b"x" * (import_export.LINE_MAX + 10))
    with open(folder / "long.ndjson", "rb") as raw:
        ((number, error),) = import_export._lines(folder / "long.ndjson", raw)
    assert (number, "longer than" in str(error)) == (1, True)


def said(ended: CommandResult) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in ended.out.splitlines())


def test_people_are_told_what_was_done(run: RunCommand, house: str, folder: Path) -> None:
    told = said(run("import", write_lines(folder, make_line(1), make_line(2))))
    assert told == {"file": "posts.ndjson", "lines": "2", "imported": "2", "there": "0", "invalid": "0"}


def test_at_a_terminal_an_import_shows_how_far_it_is(run: RunCommand, house: str, folder: Path) -> None:
    with start_at_terminal("import", write_lines(folder, *map(make_line, range(40))), cwd=folder) as (
        process,
        terminal,
    ):
        seen = read_terminal_until(terminal, f"importing            [{'#' * 30}] 100%")
        assert "imported  40" in process.popen.communicate()[0]
    assert "checking             [" in seen
    assert len(run_export(run)) == 40


def test_a_server_sees_the_texts_that_were_imported_beside_it(
    run: RunCommand, ask: Ask, house: str, folder: Path, start: Callable[..., CommandProcess]
) -> None:
    key = ask("key", "create")["key"]
    account = next(row["id"] for row in ask("account", "list") if row["platform"] == "twitter")
    with make_client(read_address(start("serve", "--port", "0")), key) as api:

        def post(text: str) -> int:
            body = {"text": text, "targets": [{"accountId": account}], "scheduledAt": LATER, "onDuplicate": "refuse"}
            return api.post("/v1/posts", json=body).status_code

        assert (post("post 1"), post("post 1")) == (202, 409)
        assert run_import(run, write_lines(folder, make_line(2, account=X)))["imported"] == 1
        assert post("post 2") == 409
