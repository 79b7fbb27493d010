"""The calendar: publications, drafts and slots of a month or a week, in the user's zone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import date, timedelta
from typing import Any, NamedTuple

from socialpub.base.errors import ApiError
from socialpub.base.runtime import format_iso
from socialpub.domain.access import actions
from socialpub.domain.accounts import accounts
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.posts import batch_log, calendar, drafts, publications, slots
from socialpub.domain.posts.calendar import PlannedDraft
from socialpub.domain.posts.slots import PlannedSlot
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.posts import PostEditRequest
from socialpub.store.rows import AccountRow
from socialpub.web.api import drafts as drafts_api
from socialpub.web.dashboard.parts.layout import (
    UndoForm,
    explain,
    keep_form,
    redirect_with_flash,
    require_form_error,
    show,
)
from socialpub.web.dashboard.posts import (
    PLATFORM_LABELS,
    STOPPED_RULE,
    cut_words,
    read_time,
    read_zone,
    to_target,
    to_view,
)
from socialpub.web.html import time_format
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext

POSTS_PER_DAY_IN_MONTH, POSTS_PER_DAY_IN_WEEK = 16, 50
ENTRIES_PER_DAY_IN_MONTH, ENTRIES_PER_DAY_IN_FULL_WEEK, SLOTS_PER_DAY_IN_MONTH = 3, 6, 3
ENTRIES_IN_WEEK_MAX = 42  # beyond this it is a full week
WORDS_IN_ENTRY_MAX = 60
WORST_FIRST = ("failed", "rejected", "unknown", "overdue", "retrying", "publishing", "validated", "queued", "published")
"""States, by how much they matter to the reader of a calendar; the others matter least."""
YEARS = range(2000, 2200)
DAY = timedelta(days=1)
FIRST_HOUR = 6  # of the hours with a row of their own in the week; those before share one
VIEWS = ("month", "week")


# --- Pages -----------------------------------------------------------------------------------------------------------


async def show_this_month(call: RequestContext) -> HandlerResponse:
    """GET /calendar."""
    return await _month(call)


async def show_month(call: RequestContext) -> HandlerResponse:
    """GET /calendar/month/{2026-11}."""
    return await _month(call, _parse_date(f"{call.path_value('month')}-01"))


async def show_this_week(call: RequestContext) -> HandlerResponse:
    """GET /calendar/week."""
    return await _week(call)


async def show_week(call: RequestContext) -> HandlerResponse:
    """GET /calendar/week/{2026-11-16}: the week that contains this day."""
    return await _week(call, _parse_date(call.path_value("day")))


def _parse_date(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise _not_found() from error
    if day.year not in YEARS:
        raise _not_found()
    return day


def _in_calendar(day: date) -> date | None:
    """Return the day, or None outside the calendar's range."""
    return day if day.year in YEARS else None


def _not_found() -> ApiError:
    return ApiError("not_found", "The calendar has no such page.")


async def _month(call: RequestContext, day: date | None = None) -> HandlerResponse:
    def read(session: DashboardSession) -> dict[str, Any]:
        today = time_format.to_local(call.service.now_ms, session.zone).date()
        first = (day or today).replace(day=1)
        following = (first + 31 * DAY).replace(day=1)
        days = [first + number * DAY for number in range((following - first).days)]
        return {
            "first": first,
            "before": _in_calendar((first - DAY).replace(day=1)),
            "following": _in_calendar(following),
            "week": today if today in days else first,
            "days": [
                _cut(day, ENTRIES_PER_DAY_IN_MONTH) | {"slots": day["slots"][:SLOTS_PER_DAY_IN_MONTH]}
                for day in load_days(call, session, days, POSTS_PER_DAY_IN_MONTH)
            ],
        }

    return await show(call, "calendar/month.html", read)


def _cut(day: dict[str, Any], most: int) -> dict[str, Any]:
    """Return a day with its first entries; `more` counts the posts and drafts left out."""
    hidden = sum(entry["count"] for entry in day["entries"][most:])
    return day | {"entries": day["entries"][:most], "more": day["more"] + hidden}


async def _week(call: RequestContext, day: date | None = None) -> HandlerResponse:
    def read(session: DashboardSession) -> dict[str, Any]:
        today = time_format.to_local(call.service.now_ms, session.zone).date()
        chosen = day or today
        monday = chosen - chosen.weekday() * DAY
        days = load_days(call, session, [monday + number * DAY for number in range(7)], POSTS_PER_DAY_IN_WEEK)
        if sum(len(day["entries"]) for day in days) > ENTRIES_IN_WEEK_MAX:
            days = [_cut(day, ENTRIES_PER_DAY_IN_FULL_WEEK) for day in days]
        return {
            "monday": monday,
            "sunday": monday + 6 * DAY,
            "before": _in_calendar(monday - DAY),
            "following": _in_calendar(monday + 7 * DAY),
            "today": today,
            "first_hour": FIRST_HOUR,
            "days": [day | {"hours": _list_hours(call, session, day)} for day in days],
        }

    return await show(call, "calendar/week.html", read)


# --- Days ------------------------------------------------------------------------------------------------------------


def load_days(call: RequestContext, session: DashboardSession, days: list[date], most: int) -> list[dict[str, Any]]:
    """Load consecutive days for a template: `entries` and free `slots` by time.

    Up to `most` posts a day.
    """
    zone, now = session.zone, call.service.now_ms
    today = time_format.to_local(now, zone).date()
    midnights = [time_format.parse_local(f"{day}", "00:00", zone) or 0 for day in [*days, days[-1] + DAY]]
    found = calendar.load_days(session.scope, list(zip(midnights, midnights[1:], strict=False)), most)
    planned = slots.list_planned(session.scope, midnights[0], midnights[-1])
    planned_drafts = calendar.load_drafts(session.scope, midnights[0], midnights[-1])
    known = {row["id"]: row for row in accounts.list_rows(session.scope)} if planned_drafts else {}
    in_slots = {(slot.profile, slot.at_ms) for slot in planned}
    several = len({slot.profile for slot in planned}) > 1
    shown = []
    for place, (day, one) in enumerate(zip(days, found, strict=True)):
        start, end = midnights[place], midnights[place + 1]
        entries = _gather([_to_entry(call, session, dict(post)) for post in one.posts], in_slots)
        entries += [_to_draft(session, draft, known) for draft in planned_drafts if start <= draft.scheduled_at < end]
        free = [slot for slot in planned if start <= slot.at_ms < end and slot.at_ms > now and not slot.is_taken]
        shown.append(
            {
                "date": day,
                "is_today": day == today,
                "is_past": day < today,
                "entries": sorted(entries, key=lambda entry: int(entry["at"])),
                "slots": [_to_slot(session, slot, with_name=several) for slot in free],
                "more": one.count - len(one.posts),
                "is_counted": one.is_counted,
                "clock_change": time_format.describe_clock_change(day, zone),
            }
        )
    return shown


def _to_entry(call: RequestContext, session: DashboardSession, post: dict[str, Any]) -> dict[str, Any]:
    at = _read_ms(post["scheduledAt"] or post["createdAt"])
    can_move = post["status"] == "queued" and at > call.service.now_ms and actions.can_publish(session.scope)
    return to_view(post, call.service.now_ms) | {"at": at, "can_move": can_move, **_tell_time(at, session.zone)}


def _read_ms(instant: str) -> int:
    """Return the milliseconds of a time as the API writes it."""
    return round(time_format.to_local(instant, "UTC").timestamp() * 1000)


def _tell_time(at_ms: int, zone: str) -> dict[str, Any]:
    """Return day, hour and clock of an instant; of a repeated time, with the zone's name."""
    fields, hour = time_format.to_fields(at_ms, zone), time_format.to_local(at_ms, zone).hour
    is_repeated = len(time_format.list_instants(**fields, zone=zone)) > 1
    suffix = f" {time_format.format_zone(at_ms, zone)}" if is_repeated else ""
    return {"clock": f"{fields['clock']}{suffix}", "day": fields["day"], "hour": hour}


def _gather(posts: Iterable[dict[str, Any]], in_slots: set[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return one entry for the posts of a batch at one time: the worst, with all targets.

    A thread is one target, however many pieces it has.
    """
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for post in posts:
        key = (post["batchId"], post["at"] if post["scheduledAt"] else 0)
        found.setdefault(key, []).append(post)
    return [
        min(group, key=_severity)
        | {
            "card": _name_card(group[0]["id"]),
            "href": f"/posts/{min(group, key=_severity)['id']}",
            "moving": f"/publications/{group[0]['batchId']}/move",
            "words": cut_words(group[0]["words"], WORDS_IN_ENTRY_MAX),
            "targets": [post for post in group if not post["threadPosition"]],
            "can_move": any(post["can_move"] for post in group),
            "in_slot": any((post["profileId"], post["at"]) in in_slots for post in group),
            "count": len(group),
        }
        for group in found.values()
    ]


def _severity(post: dict[str, Any]) -> int:
    if post.get("error", {}).get("rule") == STOPPED_RULE:  # the piece before it says why
        return len(WORST_FIRST)
    state = post["state"]
    return WORST_FIRST.index(state) if state in WORST_FIRST else len(WORST_FIRST)


def _to_draft(session: DashboardSession, draft: PlannedDraft, known: Mapping[str, AccountRow]) -> dict[str, Any]:
    at = draft.scheduled_at
    return {
        "card": _name_card(draft.id),
        "href": f"/drafts/{draft.id}",
        "moving": f"/drafts/{draft.id}/move",
        "state": draft.status,
        "is_draft": True,
        "words": cut_words(draft.title or draft.text or "", WORDS_IN_ENTRY_MAX),
        "targets": _to_draft_targets(draft.account_ids, known),
        "at": at,
        "can_move": True,
        "in_slot": False,
        "count": 1,
        **_tell_time(at, session.zone),
    }


def _name_card(id: str) -> str:
    """Return the name of a card on the page: the end of the id of its post or draft."""
    return id[-12:]


def _to_draft_targets(ids: Iterable[str], known: Mapping[str, AccountRow]) -> list[dict[str, Any]]:
    """Return the accounts that a draft names for a template."""
    return [
        {"platform": row["platform"], "label": PLATFORM_LABELS[row["platform"]], "state": None}
        | {"who": row["display_name"] or row["platform_account_id"]}
        for row in (known[id] for id in ids if id in known)
    ]


def _to_slot(session: DashboardSession, slot: PlannedSlot, *, with_name: bool) -> dict[str, Any]:
    return {
        "at": slot.at_ms,
        "profile": slot.profile_name if with_name else "",
        **_tell_time(slot.at_ms, session.zone),
    }


def _list_hours(call: RequestContext, session: DashboardSession, day: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a day: the early hours together, then each hour, with what is due."""
    rows = [range(FIRST_HOUR), *(range(hour, hour + 1) for hour in range(FIRST_HOUR, 24))]
    return [_build_hour(call, session, day, hours) for hours in rows]


def _build_hour(call: RequestContext, session: DashboardSession, day: dict[str, Any], hours: range) -> dict[str, Any]:
    return {
        "clock": f"{hours[0]:02}:00",
        "is_early": len(hours) > 1,
        "is_over": find_end(day["date"], hours, session.zone) <= call.service.now_ms,
        "entries": [entry for entry in day["entries"] if entry["hour"] in hours],
        "slots": [slot for slot in day["slots"] if slot["hour"] in hours],
    }


def find_end(day: date, hours: range, zone: str) -> int:
    """Return when the last of these hours ends, on a day on which clocks may repeat it."""
    days, hour = divmod(hours.stop, 24)
    return time_format.parse_local(f"{day + days * DAY}", f"{hour:02}:00", zone) or 0


# --- Moving ----------------------------------------------------------------------------------------------------------


class MovedItem(NamedTuple):
    """Publication or draft that a form moves; `at` None: it has no time any more."""

    address: str
    words: str
    targets: list[dict[str, Any]]
    at: int | None
    can_move: bool


ReadItem = Callable[[int | None], MovedItem]
"""Read what is moved, from the time that was shown."""


def _read_publication(call: RequestContext) -> ReadItem:
    batch, now = call.path_value("batch_id"), call.service.now_ms

    def read(seen: int | None) -> MovedItem:
        rows = batch_log.list_due_at(call.scope, batch, seen)
        at = rows[0]["scheduled_at"] if rows else None
        moving = {row["id"] for row in rows if not row["thread_position"]}
        targets = publications.load_targets(call.scope, [batch])[batch]
        shown = [to_target(target, now) for target in targets if target.id in moving]
        words = cut_words(rows[0]["text"]) if rows else ""
        return MovedItem(f"/publications/{batch}", words, shown, at, at is not None and at > now)

    return read


def _read_draft(call: RequestContext) -> ReadItem:
    def read(seen: int | None) -> MovedItem:
        row = drafts.find(call.scope, call.path_value("draft_id"))
        known = {account["id"]: account for account in accounts.list_rows(call.scope)}
        content, at = drafts.load_content(row), row["scheduled_at"]
        words = cut_words(row["title"] or content.get("text") or "")
        named = [target["accountId"] for target in content.get("targets", ()) if "accountId" in target]
        can_move = at is not None and seen in (None, at) and row["status"] != "published"
        return MovedItem(f"/drafts/{row['id']}", words, _to_draft_targets(named, known), at, can_move)

    return read


async def show_move(call: RequestContext) -> HandlerResponse:
    """GET /publications/{batch}/move: the form.

    `from` is the time that was shown, by default that of the first queued post.
    """
    return await _show_move(call, _read_publication(call))


async def show_draft_move(call: RequestContext) -> HandlerResponse:
    """GET /drafts/{id}/move: the form. `from` is the time that was shown."""
    return await _show_move(call, _read_draft(call))


def _read_view(name: str | None) -> str:
    return name if name in VIEWS else VIEWS[0]


async def _show_move(call: RequestContext, read_item: ReadItem) -> HandlerResponse:
    given = call.filled or call.request.args
    now, view, seen = call.service.now_ms, _read_view(given.get("view")), time_format.parse_ms(given.get("from"))

    def read(session: DashboardSession) -> dict[str, Any]:
        item = read_item(seen)
        return {
            "item": item,
            "due": _tell_time(item.at or now, session.zone),
            "today": time_format.to_fields(now, session.zone)["day"],
            "back": _find_page(view, item.at or now, session.zone),
        }

    return await show(call, "calendar/move.html", read, view=view, problem=explain(call.form_error))


def _find_page(view: str, at_ms: int, zone: str) -> str:
    """Return the address of the month or the week that contains an instant."""
    day = time_format.to_local(at_ms, zone)
    return f"/calendar/month/{day:%Y-%m}" if view == "month" else f"/calendar/week/{day:%Y-%m-%d}"


async def move(call: RequestContext) -> HandlerResponse:
    """POST /publications/{batch}/move: the queued posts that are due at `from`, all or none.

    To `day` and `clock` in `in_zone`, `by` days; or, to undo it, to the instant `to`.
    """
    batch = call.path_value("batch_id")

    async def act(seen: int, at_ms: int) -> tuple[str, str]:
        body = await actions.perform_bound(await batch_log.prepare_move(call.actor, batch, seen, at_ms))
        return _find_card(body), ""

    return await _move(call, _read_publication(call), act)


async def move_draft(call: RequestContext) -> HandlerResponse:
    """POST /drafts/{id}/move: the draft that was seen with the time `from`, as `move`."""
    draft = call.path_value("draft_id")

    async def act(seen: int, at_ms: int) -> tuple[str, str]:
        ended = await drafts_api.move(call.actor, draft, seen, at_ms)
        return _name_card(draft), " Its approval ended." if ended else ""

    return await _move(call, _read_draft(call), act)


async def _move(
    call: RequestContext, read_item: ReadItem, act: Callable[[int, int], Awaitable[tuple[str, str]]]
) -> HandlerResponse:
    """Perform a move and redirect to the card.

    `act` takes the old and the new time; it returns the card, and what else the message says.
    """
    form = forms.parse(call)
    seen, back = time_format.parse_ms(form.get("from")) or 0, time_format.parse_ms(form.get("to"))
    view = _read_view(form.get("view"))
    try:
        to = str(format_iso(back)) if back is not None else read_time(form, call.service.now_ms)
        at_ms = validation.parse_object(PostEditRequest, {"scheduledAt": to}).scheduled_at
        assert at_ms is not None, "it was given"
        card, more = await act(seen, at_ms)
    except ApiError as error:
        return await _show_move(keep_form(call, require_form_error(error), form), read_item)
    zone = read_zone(form)
    said = f"{'Moved' if back is None else 'Moved back'} to {time_format.format_instant(at_ms, zone)}.{more}"
    fields: dict[str, str | int] = {"from": at_ms, "to": seen, "view": view, "in_zone": zone}
    can_undo = back is None and seen > call.service.now_ms
    undo = UndoForm(call.request.path, fields) if can_undo else None
    return redirect_with_flash(call, f"{_find_page(view, at_ms, zone)}#e-{card}", said, undo=undo)


def _find_card(batch: Mapping[str, Any]) -> str:
    """Return the end of the id of a card in the calendar: that of its first queued post."""
    queued = [result["postId"] for result in batch["results"] if result["status"] == "queued"]
    return _name_card(queued[0]) if queued else ""
