"""CSV of spreadsheets: their separators and encodings, `sep=` line, spaces, empty rows."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from socialpub.base.errors import ApiError
from socialpub.domain.posts import post_import
from socialpub.store.engine import sql

LINE_MAX = 1024 * 1024  # characters
WHOLE_LINE = "line"  # rule for problems of no particular field
JSON_COLUMNS = ("media", "options")  # JSON within a cell
_WORKBOOK_HEADS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # ZIP archive (xlsx, ods, numbers) and old xls
_SEPARATORS = ",;\t"
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?[,;\t]*', re.IGNORECASE)
_VERBATIM = ("text", "firstComment")  # cells whose white space is content
_FORMULA = re.compile("'*[=+\\-@\t\r]")
"""Start of a cell that a spreadsheet would run, or that was escaped against it."""
Json = dict[str, Any]
Line = tuple[int, Json | ApiError]
"""Line number with its content, or the error of an unreadable line."""


def is_formula(cell: object) -> bool:
    """Return whether a spreadsheet would run the cell, unless escaped by an apostrophe."""
    return isinstance(cell, str) and _FORMULA.match(cell) is not None


def is_workbook(head: bytes) -> bool:
    """Return whether a file that begins so is a spreadsheet's own format."""
    return head.startswith(_WORKBOOK_HEADS)


def lines(raw: BinaryIO) -> Iterator[Line]:
    """Yield the non-empty rows by column name."""
    csv.field_size_limit(LINE_MAX)
    begins = [1]
    with open_text(raw, newline="") as text:
        try:
            yield from _rows(_split_lines(text), begins)
        except (csv.Error, UnicodeError) as error:
            why = f"The line is not CSV in UTF-8: {error}. The rest of the file was not checked. Save it as CSV UTF-8."
            yield begins[0], make_line_error(why)


def make_line_error(message: str) -> ApiError:
    """Build the error of a whole line."""
    return ApiError("validation_failed", message, rule=WHOLE_LINE)


@contextlib.contextmanager
def open_text(raw: BinaryIO, newline: str) -> Iterator[io.TextIOWrapper]:
    """Decode a file from its start, and leave it open.

    Bytes that are no UTF-8 become lone surrogates.
    """
    raw.seek(0)
    encoding = detect_encoding(raw.read(2))
    raw.seek(0)
    text = io.TextIOWrapper(raw, encoding, "surrogateescape", newline)
    try:
        yield text
    finally:
        text.detach()


def detect_encoding(head: bytes) -> str:
    """Return the encoding of a file by its first bytes.

    UTF-16 may have no mark, but the ASCII of a first line has zeros.
    """
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if 0 in head[:2]:
        return "utf-16-be" if head[0] == 0 else "utf-16-le"
    return "utf-8-sig"


def _split_lines(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(LINE_MAX + 1):
        if len(line) > LINE_MAX:
            raise csv.Error(f"it is longer than {LINE_MAX} characters")
        line.encode("utf-8", "surrogateescape").decode()  # raises here, where the line that is wrong is known
        yield line


def _rows(text: Iterator[str], begins: list[int]) -> Iterator[Line]:
    """Yield the rows; `begins` tracks the line where the next one begins."""
    first = next(text, "")
    if chosen := _SEPARATOR_LINE.fullmatch(first.rstrip("\r\n")):
        begins[0] += 1
        first = next(text, "")
    separator = chosen[1] if chosen else max(_SEPARATORS, key=lambda each: len(_known_names(_cells(first, each))))
    cells = _cells(first, separator)
    names = [_canonical(cell) for cell in cells]
    if twice := next((name for name in names if name and names.count(name) > 1), None):
        yield begins[0], make_line_error(f"The column {twice!r} occurs twice.")
        return
    header = begins[0]
    is_spaced = any(cell.startswith(" ") for cell in _cells(first, separator, is_spaced=False)[1:])
    reader = csv.reader(text, delimiter=separator, strict=True, skipinitialspace=is_spaced)
    begins[0] += 1
    for row in reader:
        if any(cell.strip() for cell in row):
            yield begins[0], _row(names, row)
        begins[0] = header + reader.line_num + 1


def _cells(line: str, separator: str, *, is_spaced: bool = True) -> list[str]:
    return next(csv.reader([line], delimiter=separator, skipinitialspace=is_spaced), [])


def _normalize_name(name: str) -> str:
    """Normalize a column name: case, spaces, `_` and `-` do not matter."""
    return re.sub(r"[\s_-]+", "", name).casefold()


_NAMES = {_normalize_name(name): name for name in (*post_import.INPUT_FIELDS, *post_import.IGNORED_FIELDS)}


def _canonical(cell: str) -> str:
    return _NAMES.get(_normalize_name(cell), cell.strip())


def _known_names(cells: Sequence[str]) -> list[str]:
    return [cell for cell in cells if _normalize_name(cell) in _NAMES]


def _row(names: Sequence[str], cells: Sequence[str]) -> Json | ApiError:
    named = list(itertools.zip_longest(names, cells, fillvalue=""))
    if any(cell.strip() for name, cell in named if not name):
        return make_line_error("The row has more cells than the header has columns.")
    found: Json = {name: cell if name in _VERBATIM else cell.strip() for name, cell in named if cell.strip()}
    if "id" in found:  # the row is from an export, which added the apostrophes
        found = {name: cell[1:] if cell.startswith("'") and is_formula(cell) else cell for name, cell in found.items()}
    for name in JSON_COLUMNS:
        if name in found and (name != "media" or found[name].startswith(("[", "{", '"'))):
            try:
                found[name] = sql.load_json(found[name])
            except ValueError:
                return ApiError("validation_failed", f"The cell {name} is not JSON.", rule=name)
    return found
