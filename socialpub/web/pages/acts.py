"""The log of acts: who did what, when and from where, narrowed by person, kind and day, all of it in the address."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

from socialpub.base.errors import ApiError
from socialpub.domain.people import actlog
from socialpub.domain.people.desk import Desk
from socialpub.web.http import Call, Reply
from socialpub.web.pages import deeds, times
from socialpub.web.pages.inside import show

LOG = "/settings/log"
FILTERS = ("person", "kind", "from", "until")


async def log(call: Call) -> Reply:
    """GET /settings/log: `person`, `kind`, `from`, `until`, `cursor`."""
    args = call.request.args
    given = {name: str(args.get(name) or "")[:100] for name in (*FILTERS, "cursor")}
    routes = call.request.app.ctx.routes

    def look(desk: Desk) -> dict[str, Any]:
        people = actlog.people(call.scope)
        try:
            page = actlog.page(call.service, call.scope, _wanted(given, desk.zone, people, routes))
        except ApiError as error:
            return {"page": actlog.Page((), {}, {}, None), "people": people, "problem": error.message}
        narrowed = {name: given[name] for name in FILTERS if given[name]}
        older = f"{LOG}?{urlencode(narrowed | {'cursor': page.cursor})}" if page.cursor else None
        newest = f"{LOG}?{urlencode(narrowed)}" if given["cursor"] else None
        return {"page": page, "people": people, "problem": "", "older": older, "newest": newest, "narrowed": narrowed}

    empty: dict[str, Any] = {"older": None, "newest": None, "narrowed": {}}
    words, kept = deeds.words_of(routes), _days_kept(call)
    shown: dict[str, Any] = {"given": given, "kinds": deeds.KINDS, "words": words, "kept": kept}
    return await show(call, "settings/log.html", lambda desk: empty | look(desk), **shown)


def _days_kept(call: Call) -> int:
    return int(call.service.runtime.settings.retention.audit // (24 * 3600))


def _wanted(given: dict[str, str], zone: str, people: list[tuple[str, str]], routes: Any) -> actlog.Wanted:
    """What the address asks for. ApiError `validation_failed` for a person, a kind or a day that there is not."""
    person, kind = given["person"] or None, given["kind"] or None
    if person is not None and person not in dict(people):
        raise ApiError("validation_failed", "This organization has no such member.")
    if kind is not None and kind not in deeds.KINDS:
        raise ApiError("validation_failed", "There is no such kind of action.")
    verbs = deeds.verbs_of(kind, routes) if kind else None
    since, until = _day(given["from"], zone), _day(given["until"], zone, ends=True)
    return actlog.Wanted(person, verbs, since, until, given["cursor"] or None)


def _day(day: str, zone: str, *, ends: bool = False) -> int | None:
    """Where a day begins, or ends, in this zone; None where none is named."""
    if not day:
        return None
    try:
        first = date.fromisoformat(day) + timedelta(days=ends)
    except (ValueError, OverflowError):
        raise ApiError("validation_failed", "Write a day like 2026-01-31.") from None
    return times.instant_of(first.isoformat(), "00:00", zone)
