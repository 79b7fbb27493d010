"""Import of a spreadsheet from a page: check its rows, then schedule the good ones.

Each post gets an external id from the hash of the file and its line, so the same file adds nothing twice, and what it
has added can be canceled.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import io
import itertools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.access.actor import Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.organizations import name_lookup
from socialpub.domain.posts import batch_log, post_import, spreadsheets
from socialpub.domain.posts.post_import import ImportedPost
from socialpub.domain.posts.spreadsheets import Line
from socialpub.store.engine import sql
from socialpub.store.queries import import_export
from socialpub.store.rows import AccountRow

FILE_MAX = 256 * 1024
ROWS_MAX = 200
STEP_ROWS = 16  # rows at a time: their writes share an fsync
ID_PREFIX = "import"
NAME_LENGTH = 32


@dataclass(frozen=True)
class SheetRow:
    """Row of a file. `state`: to be scheduled, scheduled already, or wrong."""

    line: int
    state: Literal["new", "there", "wrong"]
    post: ImportedPost | None = None
    problems: Sequence[str] = ()
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class ImportResult:
    """The rows after an import. `added`: how many posts it has scheduled."""

    rows: list[SheetRow] = field(default_factory=list)
    added: int = 0


def name_file(raw: bytes) -> str:
    """Return the name of a file in external ids: a hash of its content."""
    return hashlib.sha256(raw).hexdigest()[:NAME_LENGTH]


def build_prefix(name: str) -> str:
    """Return what the external ids of a file's posts begin with."""
    return f"{ID_PREFIX}/{name}/"


async def check(who: Actor, raw: bytes) -> list[SheetRow]:
    """Check every row as an acceptance does; write nothing.

    Raises ApiError for a file that is no CSV, or too long.
    """
    rows = await who.service.read(functools.partial(_read, who, raw))
    return await _for_each(rows, functools.partial(_check_row, who))


async def add(who: Actor, raw: bytes) -> ImportResult:
    """Schedule the posts of all good rows, each in its own transaction. Raises as `check`."""
    rows = await check(who, raw)
    written = await _for_each(rows, functools.partial(_add_row, who))
    added = sum(before.state == "new" and after.state == "there" for before, after in zip(rows, written, strict=True))
    return ImportResult(written, added)


def list_added(scope: Scope, name: str) -> list[str]:
    """List the batches of a file's posts that are still scheduled. Call within a read."""
    prefix = build_prefix(name)
    values = (scope.organization, prefix, f"{prefix[:-1]}0", ROWS_MAX)  # "0" comes after "/"
    return [batch for (batch,) in sql.fetch_all(import_export.FIND_IMPORTED_BATCHES, values)]


async def undo(who: Actor, name: str) -> tuple[int, int]:
    """Cancel the scheduled posts of a file; return how many were canceled, and were not."""
    batches, kept = await who.service.read(lambda: list_added(who.scope, name)), 0
    for batch in batches:
        try:
            await actions.perform(who, batch_log.cancel, batch)
        except ApiError as error:
            if error.code in ("unauthenticated", "unauthorized") or error.status >= 500:
                raise
            kept += 1  # it is due now, or was canceled meanwhile
    return len(batches) - kept, kept


# --- Rows ----------------------------------------------------------------------------------------------------------


def _read(who: Actor, raw: bytes) -> list[SheetRow]:
    lines = _split(raw)
    find = functools.lru_cache(ROWS_MAX)(functools.partial(_find_account, who.scope.organization))
    prefix, seen = build_prefix(name_file(raw)), set[Any]()
    rows = []
    for number, given in lines:
        try:
            if isinstance(given, ApiError):
                raise given
            post = post_import.parse_row(given, find, f"{prefix}{number}")
            is_there = post.identity in seen or post_import.is_existing(who.scope, post)
            seen.add(post.identity)
            rows.append(SheetRow(number, "there" if is_there else "new", post))
        except ApiError as error:
            rows.append(_refuse(SheetRow(number, "wrong"), error))
    return rows


def _find_account(organization: str, named: str) -> AccountRow:
    try:
        return name_lookup.find_account(organization, named)
    except ApiError as error:
        if error.code != "validation_failed":
            raise
        advice = "Write the platform before the name, or the account's ID."
        raise ApiError(error.code, f"{error.message} {advice}", remediation="") from error


def _split(raw: bytes) -> list[Line]:
    if len(raw) > FILE_MAX:
        raise _file_error(f"The file is larger than {FILE_MAX // 1024} KiB. Split it.")
    if spreadsheets.is_workbook(raw[:4]):
        raise _file_error("The file is a workbook. Save it as CSV (UTF-8) in your spreadsheet.")
    lines = list(itertools.islice(spreadsheets.lines(io.BytesIO(raw)), ROWS_MAX + 1))
    if len(lines) > ROWS_MAX:
        raise _file_error(f"The file has more than {ROWS_MAX} rows. Split it.")
    if not lines:
        raise _file_error("The file has no rows.")
    return lines


async def _for_each(
    rows: list[SheetRow], do: Callable[[SheetRow, ImportedPost], Coroutine[Any, Any, SheetRow]]
) -> list[SheetRow]:
    """Process the new rows in small steps."""

    async def run(row: SheetRow) -> SheetRow:
        if row.state != "new" or row.post is None:
            return row
        try:
            return await do(row, row.post)
        except ApiError as error:
            if error.status >= 500 or error.code in ("rate_limited", "unauthenticated", "unauthorized"):
                raise  # not caused by the row
            return _refuse(row, error)

    done: list[SheetRow] = []
    for start in range(0, len(rows), STEP_ROWS):
        done += await asyncio.gather(*(run(row) for row in rows[start : start + STEP_ROWS]))
    return done


async def _check_row(who: Actor, row: SheetRow, post: ImportedPost) -> SheetRow:
    return replace(row, warnings=[note.message for note in await post_import.check(who, post)])


async def _add_row(who: Actor, row: SheetRow, post: ImportedPost) -> SheetRow:
    await post_import.accept_post(who, post)  # False: of the same form, sent twice at once
    return replace(row, state="there")


def _refuse(row: SheetRow, error: ApiError) -> SheetRow:
    found = post_import.list_problems(error, row.post.account if row.post else None)
    is_rule = error.code == "preflight_failed"  # other remediations are for clients of the API
    problems = [
        f"{each['message']} {each['remediation'] or ''}".strip() if is_rule else each["message"] for each in found
    ]
    return replace(row, state="wrong", problems=problems)


def _file_error(message: str) -> ApiError:
    return ApiError("validation_failed", message, remediation="")
