"""`socialpub export` and `import`: posts or accounts as NDJSON or CSV, line by line."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import fcntl
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from socialpub.base import fault_injection
from socialpub.base.errors import ApiError, rule_error
from socialpub.base.security import private_files
from socialpub.base.system import os_errors
from socialpub.commands.admin import make_actor, open_database
from socialpub.commands.backup import make_progress
from socialpub.commands.click_types import CommandOptions
from socialpub.commands.foreign_exports import ExportReader, ForeignPost, LeftOut
from socialpub.commands.serve import CommandRefusedError
from socialpub.domain.access import actions
from socialpub.domain.access.actor import Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts
from socialpub.domain.backups.staging import PART_PREFIX, create_folder, give_name
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.organizations import name_lookup
from socialpub.domain.posts import batch_log, external_ids, post_export, post_import, spreadsheets
from socialpub.domain.posts.spreadsheets import LINE_MAX, Line, make_line_error
from socialpub.domain.schemas.accounts import AccountsQuery
from socialpub.domain.schemas.errors import build_warning_body
from socialpub.domain.schemas.posts import PostsQuery
from socialpub.domain.schemas.validation import parse_object
from socialpub.store.engine import sql
from socialpub.store.engine.locks import StartError, try_lock
from socialpub_client.commands.exit_codes import FAILED
from socialpub_client.commands.runner import printing, tell_error

BATCH_LINES = 16  # lines per step: their writes share an fsync
PROBLEMS_SHOWN = 200
CSV_SUFFIXES = (".csv", ".tsv", ".tab")
WORKBOOKS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
Json = dict[str, Any]
COLUMNS = (
    "id accountId account platform status scheduledAt publishedAt text media options url error threadOf threadPosition "
    "createdAt".split()
)  # fmt: skip


# --- Export --------------------------------------------------------------------------------------------------------


def export(options: CommandOptions) -> Json | None:
    """Export; return `{file, lines}`, or None for standard output (`-`)."""
    if options.accounts and (options.status or options.account or options.after or options.before):
        options.usage("--status, --account, --after and --before choose posts, not --accounts")
    with open_database(options) as service:
        organization = make_actor(options, service).scope.organization
        rows = _accounts(service, organization) if options.accounts else _posts(service, organization, options)
        if str(options.file) == "-":
            if sys.stdout is not None:
                with printing():
                    _write(sys.stdout, rows, "csv" if options.csv else "ndjson", options)
            return None
        return {"file": str(options.file), "lines": _to_file(options, rows)}


def _posts(service: AppContext, organization: str, options: CommandOptions) -> Iterator[Json]:
    wanted = {"status": list(options.status), "after": options.after, "before": options.before}
    query = {name: value for name, value in wanted.items() if value}
    if options.account:
        account = service.read(lambda: name_lookup.find_account(organization, options.account)).result()
        query["accountId"] = account["id"]
    parse_object(PostsQuery, query)  # before anything is written
    return post_export.iter_posts(service, Scope(organization), query)


def _accounts(service: AppContext, organization: str) -> Iterator[Json]:
    found = service.read(lambda: accounts.list_bodies_everywhere(organization, AccountsQuery())).result()
    yield from (dict(body) for body in found)


def _to_file(options: CommandOptions, rows: Iterable[Json]) -> int:
    """Write a new file, which gets its name once complete."""
    file: Path = options.file
    existing = CommandRefusedError(f"{file} already exists, and an export overwrites nothing")
    if file.exists():
        raise existing
    try:
        with create_folder(file.parent, PART_PREFIX) as folder:
            with os.fdopen(private_files.create(folder / file.name), "w", encoding="utf-8", newline="") as into:
                form = "csv" if options.csv or file.suffix.lower() == ".csv" else "ndjson"
                lines = _write(into, rows, form, options)
            fault_injection.hit("export.mid")
            try:
                give_name(folder / file.name, file)
            except FileExistsError as error:
                raise existing from error
    except OSError as error:
        raise StartError(f"{file} cannot be written: {os_errors.describe(error)}") from error
    return lines


def _write(into: TextIO, rows: Iterable[Json], form: str, options: CommandOptions) -> int:
    if form == "ndjson":
        return _count_rows(rows, lambda row: print(json.dumps(row, ensure_ascii=False), file=into))
    first = "id profileId platform platformAccountId displayName status createdAt updatedAt tokenExpiresAt".split()
    writer = csv.DictWriter(into, first if options.accounts else COLUMNS, extrasaction="ignore")
    writer.writeheader()
    return _count_rows(rows, lambda row: writer.writerow(_escape_formulas(row if options.accounts else _cells(row))))


def _count_rows(rows: Iterable[Json], write: Callable[[Json], object]) -> int:
    count = 0
    for row in rows:
        write(row)
        count += 1
    return count


def _escape_formulas(cells: Json) -> Json:
    """Escape formulas with an apostrophe: spreadsheets run them, and names are untrusted."""
    return {name: f"'{cell}" if spreadsheets.is_formula(cell) else cell for name, cell in cells.items()}


def _cells(post: Json) -> Json:
    """Flatten a post to a row: the account by name, nested values as JSON."""
    account, error = post["account"], post.get("error") or {}
    return {
        **post,
        "account": account["displayName"] or account["platformAccountId"],
        "media": json.dumps(post["mediaRefs"], ensure_ascii=False) if post["mediaRefs"] else "",
        "options": json.dumps(post["options"], ensure_ascii=False) if post["options"] else "",
        "error": error.get("rule") or error.get("code", ""),
    }


# --- Import: lines -------------------------------------------------------------------------------------------------


@dataclass
class ImportReport:
    """The report of an import. All problems are counted; the first ones are listed."""

    file: str
    lines: int = 0
    imported: int = 0
    there: int = 0
    invalid: int = 0
    problems: list[Json] = field(default_factory=list)
    warnings: list[Json] = field(default_factory=list)

    def refuse(self, line: int, found: Iterable[Mapping[str, Any]]) -> None:
        self.invalid += 1
        self._add(self.problems, line, found)

    def warn(self, line: int, found: Iterable[Mapping[str, Any]]) -> None:
        self._add(self.warnings, line, found)

    def _add(self, rows: list[Json], line: int, found: Iterable[Mapping[str, Any]]) -> None:
        rows.extend({"line": line, **one} for one in found)
        rows.sort(key=lambda one: int(one["line"]))
        del rows[PROBLEMS_SHOWN:]

    def body(self) -> Json:
        return dict(vars(self))


@dataclass
class ForeignReport(ImportReport):
    """The report of an import from another program, with what does not come over."""

    left: int = 0
    leftOut: list[Json] = field(default_factory=list)  # noqa: N815  # as JSON spells it
    dryRun: bool = True  # noqa: N815

    def leave(self, line: int, message: str) -> None:
        """Record a post that does not come over."""
        self.left += 1
        self._add(self.leftOut, line, [{"message": message}])


def _is_csv(file: Path, raw: BinaryIO) -> bool:
    """Detect CSV by name, and go to the file's start; Excel's "Unicode text" is `.txt`.

    Raises CommandRefusedError for a workbook.
    """
    suffix = file.suffix.lower()
    raw.seek(0)
    head = raw.read(4)
    raw.seek(0)
    if suffix in WORKBOOKS or (suffix in CSV_SUFFIXES and spreadsheets.is_workbook(head)):
        raise CommandRefusedError(
            f"{file} is a workbook: save it as CSV (UTF-8) in your spreadsheet, and import that file"
        )
    begin = head.decode(spreadsheets.detect_encoding(head), "ignore")
    return suffix in CSV_SUFFIXES or (suffix == ".txt" and not begin.startswith("{"))


def _lines(file: Path, raw: BinaryIO) -> Iterator[Line]:
    return spreadsheets.lines(raw) if _is_csv(file, raw) else _json_lines(raw)


def _json_lines(raw: BinaryIO) -> Iterator[Line]:
    number = 0
    with spreadsheets.open_text(raw, newline="\n") as text:
        try:
            while line := text.readline(LINE_MAX + 1):
                number += 1
                if len(line) > LINE_MAX:
                    yield number, make_line_error(f"The line is longer than {LINE_MAX} characters. {_UNCHECKED}")
                    return
                if line.strip():
                    yield number, _json(line)
        except UnicodeError as error:
            yield number + 1, make_line_error(f"The line is not text: {error}. {_UNCHECKED}")


_UNCHECKED = "The rest of the file was not checked."


def _json(line: str) -> Json | ApiError:
    try:
        found = sql.load_json(line.removeprefix("\ufeff"))  # of a file that was appended
    except ValueError as error:
        return make_line_error(f"The line is not JSON: {error}.")
    return found if isinstance(found, dict) else make_line_error("The line is not a JSON object.")


# --- Import: posts -------------------------------------------------------------------------------------------------


def bring(options: CommandOptions) -> Json:
    """Check the whole file, then import it, and return the report.

    Writes nothing if a line has a problem, unless `--skip-invalid`; then the exit code is 1. Another program's export
    is imported with `--yes` only. The function's name is in audit logs.
    """
    file: Path = options.file
    source = _read_source(options)
    with _open_locked(file) as raw, open_database(options) as service:
        actor = make_actor(options, service)
        if source and options.undo:
            return _undo(options, actor, source.read(raw))
        shown = make_progress(options)
        if source:
            foreign = ForeignReport(str(file), dryRun=not options.yes)
            run: _Import = _ForeignImport(actor, file, raw, foreign, shown, source)
        else:
            run = _Import(actor, file, raw, ImportReport(str(file)), shown)
        checks_only = options.check or (source is not None and not options.yes)
        asyncio.run(run.run(checks_only=checks_only, skip_invalid=options.skip_invalid))
    report = run.report
    options.exit_code = FAILED if report.invalid and not options.skip_invalid else 0
    if options.json:
        return report.body()
    _print_report(report)
    return {name: value for name, value in report.body().items() if not isinstance(value, list)}


def _read_source(options: CommandOptions) -> ExportReader | None:
    """Return the reader of another program's export, if the file is one."""
    name = vars(options)["from"]
    if name is None:
        if options.zone or options.map or options.yes or options.undo:
            options.usage("--zone, --map, --yes and --undo need --from")
        return None
    names = {}
    for given in options.map:
        there, equals, here = given.partition("=")
        if not (there and equals and here):
            options.usage(f"--map: {given!r} is not NAME=ACCOUNT")
        names[there] = here
    return ExportReader(name, options.zone, names)


def _undo(options: CommandOptions, actor: Actor, posts: Iterable[tuple[int, Any]]) -> Json:
    """Cancel the posts that an import of this file made; without `--yes`, count them."""
    report: Json = {"file": str(options.file), "dryRun": not options.yes, "canceled": 0, "kept": 0}
    for number, post in posts:
        if not isinstance(post, ForeignPost):
            continue
        batch = actor.service.read(partial(external_ids.find_batch, actor.scope, post.external_id)).result()
        if batch is None:
            continue
        try:
            if options.yes:
                actions.perform_sync(actor, batch_log.cancel, batch)
            else:
                actor.service.read(partial(_check_queued, actor.scope, batch)).result()
            report["canceled"] += 1
        except ApiError as error:
            if error.status >= 500:
                raise  # not caused by the post
            report["kept"] += 1
            tell_error(f"{options.file}:{number}: kept: {error.message}")
    options.done = "canceled" if options.yes else "nothing"
    return report


def _check_queued(scope: Scope, batch: str) -> None:
    """Raise ApiError as canceling a batch does that has no queued post. Call within a read."""
    if all(result["status"] != "queued" for result in batch_log.find(scope, batch).body["results"]):
        raise rule_error("post.status", "No post of the batch is `queued`.")


@contextlib.contextmanager
def _open_locked(file: Path) -> Iterator[BinaryIO]:
    """Open the file and lock it against concurrent imports."""
    try:
        raw = open(file, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise StartError(f"{file} cannot be read: {os_errors.describe(error)}") from error
    with raw:
        if not raw.seekable():
            raise CommandRefusedError(f"{file} is a pipe, and an import reads its file twice: save it to a file first")
        if not try_lock(raw):
            raise CommandRefusedError(f"{file} is already being imported")
        try:
            yield raw
        finally:
            fcntl.flock(raw, fcntl.LOCK_UN)


@dataclass(eq=False)
class _Import:
    """Import in two passes: check all lines, then write them."""

    actor: Actor
    file: Path
    raw: BinaryIO
    report: ImportReport
    show_progress: Callable[[str, int, int], None]

    def __post_init__(self) -> None:
        self._find = post_import.make_account_finder(self.actor)
        self._size = self.file.stat().st_size
        self._bad: set[int] = set()  # lines refused by the check
        self._in_step: set[Any] = set()  # posts of the current step: a file may repeat one

    async def run(self, *, checks_only: bool, skip_invalid: bool) -> None:
        await self._each("checking", self._check)
        if checks_only or (self._bad and not skip_invalid):
            return
        self.report.lines = self.report.there = 0
        await self._each("importing", self._write)

    async def _each(self, what: str, do: Callable[[int, post_import.ImportedPost], Awaitable[None]]) -> None:
        """Process the lines in small steps."""
        step: list[Line] = []
        for line in self._read_lines():
            step.append(line)
            if len(step) == BATCH_LINES:
                await self._step(step, do)
                step = []
            self.show_progress(what, min(self.raw.tell(), self._size - 1), self._size)
        await self._step(step, do)
        self.show_progress(what, self._size, self._size)

    def _read_lines(self) -> Iterator[tuple[int, Any]]:
        return _lines(self.file, self.raw)

    def _parse(self, given: Any) -> post_import.ImportedPost:
        return post_import.parse_row(given, self._find)

    async def _step(self, step: list[Line], do: Callable[[int, post_import.ImportedPost], Awaitable[None]]) -> None:
        self._in_step.clear()
        await asyncio.gather(*(self._line(*line, do) for line in step))
        fault_injection.hit("import.step")

    async def _line(
        self, number: int, given: Json | ApiError, do: Callable[[int, post_import.ImportedPost], Awaitable[None]]
    ) -> None:
        self.report.lines += 1
        if number in self._bad:
            return
        account = None
        try:
            if isinstance(given, ApiError):
                raise given
            wanted = self._parse(given)
            account = wanted.account
            if await self.actor.service.read(partial(post_import.is_existing, self.actor.scope, wanted)):
                self.report.there += 1
            else:
                await do(number, wanted)
        except ApiError as error:
            if error.status >= 500 or error.code == "rate_limited":
                raise  # not caused by the line
            self._bad.add(number)
            self.report.refuse(number, post_import.list_problems(error, account))

    async def _check(self, number: int, wanted: post_import.ImportedPost) -> None:
        self.report.warn(number, map(build_warning_body, await post_import.check(self.actor, wanted)))

    async def _write(self, number: int, wanted: post_import.ImportedPost) -> None:
        if wanted.identity in self._in_step:
            self.report.there += 1
            return
        self._in_step.add(wanted.identity)
        if await post_import.accept_post(self.actor, wanted):
            self.report.imported += 1
        else:
            self.report.there += 1


@dataclass(eq=False)
class _ForeignImport(_Import):
    """Import from another program's export, with an external id for each post."""

    report: ForeignReport
    source: ExportReader

    def _read_lines(self) -> Iterator[tuple[int, Any]]:
        self.raw.seek(0)
        return self.source.read(self.raw)

    def _parse(self, given: Any) -> post_import.ImportedPost:
        return post_import.parse_row(given.row, self._find, given.external_id)

    async def _line(
        self, number: int, given: Any, do: Callable[[int, post_import.ImportedPost], Awaitable[None]]
    ) -> None:
        is_check = do == self._check
        if isinstance(given, LeftOut):
            self.report.lines += 1
            if is_check:
                self.report.leave(number, given.message)
            return
        if is_check and isinstance(given, ForeignPost):
            self.report.warn(number, ({"code": "import_loss", "message": text} for text in given.losses))
        await super()._line(number, given, do)


def _print_report(report: ImportReport) -> None:
    left = report.leftOut if isinstance(report, ForeignReport) else []
    for kind, found in (("", report.problems), ("left out: ", left), ("warning: ", report.warnings)):
        for one in found:
            tell_error(f"{report.file}:{one['line']}: {kind}{one['message']}")
