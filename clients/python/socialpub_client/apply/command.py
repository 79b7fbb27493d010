"""The command `socialpub apply`: read, plan, show, apply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from socialpub_client import InvalidArgument, OutcomeUnknown, Socialpub
from socialpub_client.apply.calendar import Calendar, CalendarError
from socialpub_client.apply.calendar_files import read_calendar
from socialpub_client.apply.execution import apply_plan
from socialpub_client.apply.plan_files import WrittenPlan, read_plan, write_plan
from socialpub_client.apply.planner import CalendarPlan, Change, Planner
from socialpub_client.commands.click_types import ApiOptions
from socialpub_client.commands.exit_codes import PARTLY, REFUSED
from socialpub_client.commands.runner import Output, connect, envelope, exit_code, tell_error

Json = dict[str, Any]


@dataclass(frozen=True)
class ApplyRequest:
    """Options of the command. `check`: "" applies, "rules" and "changes" only plan."""

    files: Sequence[Path]
    check: str = ""
    out: Path | None = None
    prune: bool = False
    publish_late: bool = False


def apply(options: ApiOptions) -> Output:
    """Run the command with the options of its command line."""
    late = options.late == "publish"
    request = ApplyRequest(options.files, options.check or "", options.out, options.prune, late)
    return run(connect(options), request)


def run(sp: Socialpub, request: ApplyRequest) -> Output:
    """Plan; unless it is a check, the output's rows apply the plan. Raises SocialpubError."""
    written: WrittenPlan | None = None
    try:
        if len(request.files) == 1 and request.files[0].suffix.lower() == ".json":
            written = read_plan(request.files[0])
        calendar = written.calendar if written else read_calendar(request.files)
    except CalendarError as error:
        return _refuse(map(str, error.problems))
    plan = _plan(sp, request, calendar, written)
    if written is not None:
        if written.url != sp.engine.url:
            return _refuse([f"the plan is for {written.url}, not for {sp.engine.url}"])
        if moved := written.find_moves(plan):
            return _refuse(f"{each}: the server has moved on since the plan" for each in moved)
    if request.out is not None:
        write_plan(request.out, plan, sp.engine.url, prune=request.prune, publish_late=request.publish_late)
    output = Output(lines=_format_row, notes=_list_notes(plan))
    if not (request.check or request.out is not None or plan.is_refused):
        output.rows, output.wrote = _apply(sp, plan, output), True
        return output
    output.rows = map(_to_row, plan.changes)
    if plan.is_refused:
        output.code = REFUSED
    elif request.check == "changes" and plan.has_changes:
        output.code = PARTLY
    return output


def _plan(sp: Socialpub, request: ApplyRequest, calendar: Calendar, written: WrittenPlan | None) -> CalendarPlan:
    prune = written.prune if written else request.prune
    late = written.publish_late if written else request.publish_late
    return Planner(sp, publish_late=late, prune=prune).plan(calendar)


def _apply(sp: Socialpub, plan: CalendarPlan, output: Output) -> Iterator[Json]:
    """Apply a plan; yield a row for each entry as it is done.

    The exit code becomes that of the last error.
    """
    yield from (_to_row(change) for change in plan.changes if not change.steps)
    done = 0
    for outcome in apply_plan(sp, plan):
        if outcome.error is None:
            done += 1
            yield _to_row(outcome.change) | {"result": "done"}
            continue
        output.code = REFUSED if isinstance(outcome.error, InvalidArgument) else exit_code(outcome.error)
        error: Json = envelope(outcome.error)["error"]
        if isinstance(outcome.error, OutcomeUnknown):
            error["remediation"] = "Run it again: what was accepted is not repeated."
        yield _to_row(outcome.change) | {"result": "failed", "error": error}
    if done and output.code == REFUSED:
        output.code = PARTLY


# --- Output --------------------------------------------------------------------------------------------------------


def _to_row(change: Change) -> Json:
    return {"sign": change.sign, "id": change.id, "title": change.title, "notes": change.notes}


def _format_row(row: Json) -> list[str]:
    """Format a change: a line, its notes, and what to do about its failure."""
    error = row.get("error", {})
    notes = (*row["notes"], *(error[name] for name in ("message", "remediation", "rule") if error.get(name)))
    first = "  ".join(part for part in (f"{row['sign']} {row['id']}", row["title"], row.get("result")) if part)
    return [first, *(f"    {note}" for note in notes)]


def _list_notes(plan: CalendarPlan) -> list[str]:
    if not plan.unnamed:
        return []
    posts = "post is" if plan.unnamed == 1 else "posts are"
    return [f"{plan.unnamed} queued {posts} in no file; --prune cancels what the files do not have"]


def _refuse(problems: Iterable[str]) -> Output:
    found = list(problems)
    for problem in found:
        tell_error(problem)
    value = {"error": {"code": "validation_failed", "message": "; ".join(found)}}
    return Output(value, lines=lambda _: [], code=REFUSED)
