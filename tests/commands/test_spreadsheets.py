"""Import of spreadsheet files: separators, encodings, line ends, quoting, names."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.base.errors import ApiError
from socialpub.domain.posts import spreadsheets
from tests.support.command_data import insert_account, make_organization
from tests.support.command_runner import RunCommand
from tests.support.import_files import BLUESKY, LATER, make_line, run_export, run_import, write_lines

Ask = Callable[..., Any]
NAMES = ["accountId", "scheduledAt", "text", "firstComment"]
ROWS = [
    ["a-1", LATER, "Hello", ""],
    ["a-2", LATER, 'Commas, "quotes"; tabs\tand\nlines', "  kept  "],
    ["a-3", LATER, "'=1 is typed, ünï 日本 🎉", "-1"],
]
SEPARATORS = [",", ";", "\t"]
ENCODINGS = {  # and the mark at the beginning
    "UTF-8": ("utf-8", b""),
    "UTF-8 with its mark": ("utf-8-sig", b""),
    "UTF-16 LE with its mark": ("utf-16-le", codecs.BOM_UTF16_LE),
    "UTF-16 BE with its mark": ("utf-16-be", codecs.BOM_UTF16_BE),
    "UTF-16 LE": ("utf-16-le", b""),
    "UTF-16 BE": ("utf-16-be", b""),
}
LINE_ENDS = ["\n", "\r\n", "\r"]
QUOTING = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL]
SPELLINGS: dict[str, Callable[[str], str]] = {
    "as documented": str,
    "with spaces after it": lambda name: f"{name}  ",
    "in capitals": str.upper,
    "in words": lambda name: "".join(f" {c.lower()}" if c.isupper() else c for c in name).capitalize(),
    "with underscores": lambda name: "".join(f"_{c.lower()}" if c.isupper() else c for c in name),
}
OTHER_PARTS = ["", "sep=", "empty rows", "empty columns"]


@pytest.fixture
def house(ask: Ask) -> str:
    org, profile = make_organization(ask)
    insert_account(ask, profile, "bluesky", BLUESKY)
    return org


def table(rows: list[list[str]], separator: str = ",", end: str = "\n", quoting: int = csv.QUOTE_MINIMAL) -> str:
    into = io.StringIO(newline="")
    csv.writer(into, delimiter=separator, lineterminator=end, quoting=quoting).writerows(rows)  # type: ignore[arg-type]
    return into.getvalue()


def encode(text: str, encoding: str) -> bytes:
    codec, mark = ENCODINGS[encoding]
    return mark + text.encode(codec)


def read(raw: bytes) -> list[spreadsheets.Line]:
    return list(spreadsheets.lines(io.BytesIO(raw)))


def meant(rows: list[list[str]]) -> list[dict[str, str]]:
    return [{name: cell for name, cell in zip(NAMES, row, strict=True) if cell.strip()} for row in rows]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_form_of_a_table_is_the_same_table(encoding: str, spelling: str) -> None:
    for separator, end, quoting, part in itertools.product(SEPARATORS, LINE_ENDS, QUOTING, OTHER_PARTS):
        rows = [[SPELLINGS[spelling](name) for name in NAMES], *ROWS]
        if part == "empty rows":
            rows += [[""] * len(NAMES)] * 3
        if part == "empty columns":
            rows = [[*row, "", ""] for row in rows]
        text = (f"sep={separator}{end}" if part == "sep=" else "") + table(rows, separator, end, quoting)
        found = read(encode(text, encoding))
        assert [row for _, row in found] == meant(ROWS), (separator, end, quoting, part)


_cell = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@given(
    texts=st.lists(_cell.filter(str.strip), min_size=1, max_size=4),
    separator=st.sampled_from(SEPARATORS),
    encoding=st.sampled_from([*ENCODINGS]),
    quoting=st.sampled_from(QUOTING),
)
def test_every_text_comes_back_as_it_was_written(texts: list[str], separator: str, encoding: str, quoting: int) -> None:
    rows = [["a", LATER, text, ""] for text in texts]
    raw = encode(table([NAMES, *rows], separator, "\r\n", quoting), encoding)
    assert [row for _, row in read(raw)] == meant(rows)


def test_spaces_after_separators_are_not_content() -> None:
    raw = b'accountId, "scheduledAt", text\n a, 2027-01-05T09:00:00Z, "one, two"\n'
    assert [row for _, row in read(raw)] == [
        {"accountId": "a", "scheduledAt": "2027-01-05T09:00:00Z", "text": "one, two"}
    ]


def test_lines_are_numbered_where_they_begin_after_sep_and_empty_rows() -> None:
    raw = b'sep=;\naccountId;text\n;\na;"two\nlines"\n;\nb;c\n'
    assert [line for line, _ in read(raw)] == [4, 7]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("accountId,text,text\na,b,c\n", 1, "The column 'text' occurs twice."),
        ("sep=;\naccountId;Text; text \na;b;c\n", 2, "The column 'text' occurs twice."),
        ("accountId,scheduled at,scheduledAt\na,b,c\n", 1, "The column 'scheduledAt' occurs twice."),
        ("accountId,text\na,b,c\n", 2, "The row has more cells than the header has columns."),
        ("accountId,text,\na,b,c\n", 2, "The row has more cells than the header has columns."),
        ('accountId,text\na,"b\n', 2, "The line is not CSV in UTF-8: unexpected end of data"),
        ("accountId,text\na,caf\udce9\n", 2, "The line is not CSV in UTF-8: 'utf-8' codec can't decode"),
        ("accountId,options\na,{\n", 2, "The cell options is not JSON."),
    ],
)
def test_what_cannot_be_read_is_named(text: str, line: int, message: str) -> None:
    (*_, (number, found)) = read(text.encode("utf-8", "surrogateescape"))
    assert isinstance(found, ApiError)
    assert number == line
    assert found.message.startswith(message)


def test_an_apostrophe_is_taken_from_the_rows_of_an_export_alone() -> None:
    raw = table([["id", "accountId", "text"], ["p-1", "a", "'-1"], ["p-2", "a", "'quoted'"], ["", "a", "'-1"]])
    assert [row["text"] for _, row in read(raw.encode()) if isinstance(row, dict)] == ["-1", "'quoted'", "'-1"]


@pytest.mark.parametrize(
    ("cell", "media"),
    [
        ("https://e.com/a.jpg", [("image", "https://e.com/a.jpg")]),
        ("https://e.com/a.MP4?x=1", [("video", "https://e.com/a.MP4?x=1")]),
        (
            " https://e.com/a,b.png, https://e.com/c.webp",
            [("image", "https://e.com/a,b.png"), ("image", "https://e.com/c.webp")],
        ),
        ("https://e.com/a|https://e.com/b;https://e.com/c", [("image", f"https://e.com/{name}") for name in "abc"]),
        ('[{"kind": "video", "url": "https://e.com/v"}]', [("video", "https://e.com/v")]),
    ],
)
def test_media_are_named_plainly(
    run: RunCommand, house: str, folder: Path, cell: str, media: list[tuple[str, str]]
) -> None:
    rows = [["account", "scheduledAt", "text", "media"], [BLUESKY, LATER, "pictures", cell]]
    (folder / "plan.csv").write_text(table(rows, ";"))
    run_import(run, "plan.csv")
    (line,) = run_export(run)
    assert [(ref["kind"], ref["url"]) for ref in line["mediaRefs"]] == media


@pytest.mark.parametrize("name", ["PLAN.CSV", "plan.Csv", "plan.tsv", "plan.TAB", "plan.txt"])
def test_a_name_may_be_in_any_case(run: RunCommand, house: str, folder: Path, name: str) -> None:
    separator = "," if name.lower().endswith(".csv") else "\t"
    rows = [["account", "scheduledAt", "text"], [BLUESKY, LATER, "from a table"]]
    (folder / name).write_text(table(rows, separator))
    assert run_import(run, name)["imported"] == 1
    assert [line["text"] for line in run_export(run)] == ["from a table"]


@pytest.mark.parametrize("name", ["posts.txt", "posts.ndjson"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_lines_of_json_may_have_any_encoding(
    run: RunCommand, house: str, folder: Path, encoding: str, name: str
) -> None:
    lines = write_lines(folder, make_line(1), "", make_line(2), name="utf-8.txt")
    (folder / name).write_bytes(encode((folder / lines).read_text(), encoding))
    assert run_import(run, name)["imported"] == 2


def test_a_cut_line_of_utf_16_is_named(run: RunCommand, house: str, folder: Path) -> None:
    lines = write_lines(folder, make_line(1), name="utf-8.txt")
    (folder / "posts.ndjson").write_bytes((folder / lines).read_text().encode("utf-16") + b"\n")
    ended = run("import", "posts.ndjson")
    assert (ended.code, "posts.ndjson:2: The line is not text: " in ended.err) == (1, True), ended.err


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("plan.xlsx", b"PK\3\4"),
        ("plan.XLS", b""),
        ("plan.ods", b""),
        ("plan.csv", b"PK\3\4"),
        ("plan.csv", b"\xd0\xcf\x11\xe0"),
    ],
)
def test_a_workbook_is_to_be_saved_as_csv(run: RunCommand, house: str, folder: Path, name: str, head: bytes) -> None:
    (folder / name).write_bytes(head + b"rest")
    ended = run("--json", "import", name)
    assert ended.code == 3
    assert "save it as CSV" in ended.error["message"]


def test_an_export_to_a_name_in_capitals_is_csv_and_comes_back(
    run: RunCommand, ask: Ask, house: str, folder: Path
) -> None:
    run_import(run, write_lines(folder, make_line(text="=1+1"), make_line(text="'=1+1"), make_line(text="'quoted'")))
    ask("export", "OUT.CSV")
    resaved = (folder / "OUT.CSV").read_text()
    rows = [*csv.reader(io.StringIO(resaved))]
    (folder / "back.csv").write_bytes(codecs.BOM_UTF16_LE + table(rows, "\t", "\r\n").encode("utf-16-le"))
    report = run_import(run, "back.csv")
    assert (report["lines"], report["there"], report["imported"]) == (3, 3, 0)
