"""The command `socialpub apply`: read, plan, show, apply."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from socialpub_client import (
    ConfigurationError,
    ConnectionFailed,
    OutcomeUnknown,
    Socialpub,
    SocialpubError,
    Unauthenticated,
    Unauthorized,
)
from socialpub_client.apply.calendar import Calendar, CalendarError
from socialpub_client.apply.calendar_files import read_calendar
from socialpub_client.apply.execution import Outcome, apply_plan
from socialpub_client.apply.plan_files import WrittenPlan, read_plan, write_plan
from socialpub_client.apply.planner import CalendarPlan, Change, Planner

DONE, FAILED, USAGE, REFUSED, AUTHENTICATION, PARTLY, UNKNOWN, UNREACHED = range(8)


@dataclass(frozen=True)
class ApplyRequest:
    """Options of the command. `check`: "" applies, "rules" and "changes" only plan."""

    files: Sequence[Path]
    check: str = ""
    out: Path | None = None
    prune: bool = False
    publish_late: bool = False
    as_json: bool = False
    quiet: bool = False


def main(options: Any) -> int:
    """Run the command with the options of its command line; return the exit code."""
    request = ApplyRequest(
        options.files,
        options.check or "",
        options.out,
        options.prune,
        options.late == "publish",
        options.json,
        options.quiet,
    )
    try:
        with Socialpub(options.url, options.key, server=options.server) as sp:
            return run(sp, request, datetime.now(UTC))
    except SocialpubError as error:
        return _tell_error(request, error)


def run(sp: Socialpub, request: ApplyRequest, now: datetime) -> int:
    """Plan, and apply unless it is a check; return the exit code."""
    written: WrittenPlan | None = None
    try:
        if len(request.files) == 1 and request.files[0].suffix == ".json":
            written = read_plan(request.files[0])
        calendar = written.calendar if written else read_calendar(request.files)
    except CalendarError as error:
        return _tell_problems(request, map(str, error.problems))
    try:
        plan = _plan(sp, request, calendar, written, now)
        if written is not None:
            if written.url != sp.engine.url:
                return _tell_problems(request, [f"the plan is for {written.url}, not for {sp.engine.url}"])
            if moved := written.find_moves(plan):
                return _tell_problems(request, [f"{each}: the server has moved on since the plan" for each in moved])
        if request.out is not None:
            write_plan(request.out, plan, sp.engine.url, prune=request.prune, publish_late=request.publish_late)
        if request.check or request.out is not None or plan.is_refused:
            _show_plan(request, plan)
            if plan.is_refused:
                return REFUSED
            return PARTLY if request.check == "changes" and plan.has_changes else DONE
        return _apply(sp, request, plan)
    except SocialpubError as error:
        return _tell_error(request, error)


def _plan(
    sp: Socialpub, request: ApplyRequest, calendar: Calendar, written: WrittenPlan | None, now: datetime
) -> CalendarPlan:
    prune = written.prune if written else request.prune
    late = written.publish_late if written else request.publish_late
    return Planner(sp, now, publish_late=late, prune=prune).plan(calendar)


def _apply(sp: Socialpub, request: ApplyRequest, plan: CalendarPlan) -> int:
    """Apply a plan, with a line for each entry as it is done."""
    for change in plan.changes:
        if not change.steps:
            _show(request, change, "")
    done, failed = 0, list[Outcome]()
    for outcome in apply_plan(sp, plan):
        if outcome.error is None:
            done += 1
            _show(request, outcome.change, "done")
        else:
            failed.append(outcome)
            _show(request, outcome.change, str(outcome.error), outcome.error)
    _tell_unnamed(request, plan)
    if not failed:
        return DONE
    code = exit_code(failed[-1].error)
    return PARTLY if done and code == REFUSED else code


def exit_code(error: SocialpubError | None) -> int:
    """Return the exit code of an error that ended the command."""
    match error:
        case None:
            return DONE
        case OutcomeUnknown():
            return UNKNOWN
        case Unauthenticated() | Unauthorized() | ConfigurationError():
            return AUTHENTICATION
        case ConnectionFailed():
            return UNREACHED
        case _ if error.status == 429 or (error.status or 0) >= 500:
            return UNREACHED
        case _:
            return REFUSED


# --- Output --------------------------------------------------------------------------------------------------------


def _show_plan(request: ApplyRequest, plan: CalendarPlan) -> None:
    for change in plan.changes:
        _show(request, change, "")
    _tell_unnamed(request, plan)


def _show(request: ApplyRequest, change: Change, result: str, error: SocialpubError | None = None) -> None:
    """Print a change: a line and its notes, or one JSON value."""
    if request.as_json:
        value: dict[str, Any] = {"sign": change.sign, "id": change.id, "title": change.title, "notes": change.notes}
        if result:
            value["result"] = "failed" if error else "done"
        if error is not None:
            value["error"] = error.envelope.get("error") or {"code": error.code, "message": error.message}
        print(json.dumps(value, ensure_ascii=False), flush=True)
        return
    print(f"{change.sign} {change.id}  {change.title}{f'  {result}' if result else ''}", flush=True)
    for note in change.notes:
        print(f"    {note}", flush=True)


def _tell_unnamed(request: ApplyRequest, plan: CalendarPlan) -> None:
    if plan.unnamed and not request.quiet:
        posts = "post is" if plan.unnamed == 1 else "posts are"
        print(f"{plan.unnamed} queued {posts} in no file; --prune cancels what the files do not have", file=sys.stderr)


def _tell_problems(request: ApplyRequest, problems: Iterable[str]) -> int:
    found = list(problems)
    if request.as_json:
        error = {"code": "validation_failed", "message": "; ".join(found)}
        print(json.dumps({"error": error}, ensure_ascii=False))
    for problem in found:
        print(problem, file=sys.stderr)
    return REFUSED


def _tell_error(request: ApplyRequest, error: SocialpubError) -> int:
    if request.as_json:
        envelope = error.envelope or {"error": {"code": error.code, "message": error.message}}
        print(json.dumps(envelope, ensure_ascii=False))
    print(error, file=sys.stderr)
    return exit_code(error)
