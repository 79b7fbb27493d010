"""Slots: weekly times of a profile, of which a batch takes the next free one.

A slot is free while no post of the profile is queued for its time; nothing else is stored, so a canceled or moved post
frees its slot, and new slots move no post.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple, get_args

from socialpub.base.errors import rule_error
from socialpub.base.runtime import format_iso
from socialpub.base.time_zones import load_zone
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.posts import BatchRequest
from socialpub.domain.schemas.slots import Day, ProfileSlotsBody, SlotBody, SlotsRequest
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import slots as queries
from socialpub.store.rows import ProfileRow
from socialpub.store.schema.models import Profile

HORIZON_WEEKS = 52
LEAD_MIN_MS = 60_000
PLANNED_PROFILES_MAX, PLANNED_MAX = 20, 500  # that a calendar shows
DAYS: tuple[Day, ...] = get_args(Day)


class WeeklySlots(NamedTuple):
    """Slots of a profile as stored: time zone, and the slots in the order of the week."""

    zone: str = "UTC"
    weekly: Sequence[SlotBody] = ()


# --- Read and define -------------------------------------------------------------------------------------------------


def load_body(service: AppContext, scope: Scope) -> ProfileSlotsBody:
    """Load the slots of the scope's profile. Raises ApiError `not_found`, or at `profileId`."""
    return _build_body(service, _find_profile(scope))


def define(tx: Tx, who: Actor, request: SlotsRequest) -> ActionResult:
    """Replace the slots of a profile. Raises ApiError `not_found`, or at `profileId`."""
    profile = _find_profile(replace(who.scope, profile=who.scope.narrowed(request.profile_id)))
    weekly = sorted(request.weekly, key=lambda slot: (DAYS.index(slot.day), slot.time))
    slots = json.dumps(WeeklySlots(request.zone, [{"day": slot.day, "time": slot.time} for slot in weekly])._asdict())
    now = who.service.now_ms
    Profile.update(slots=slots, updated_at=now).where(Profile.id == profile["id"]).execute()
    return ActionResult(_build_body(who.service, {**profile, "slots": slots}), subject=profile["id"])


def _find_profile(scope: Scope) -> ProfileRow:
    profile = profiles.find_only(scope)
    if profile is None:
        missing = validation.build_issue("missing", ["profileId"], "Name one of the profiles", "a UUID", "nothing")
        raise validation.build_schema_error([missing])
    return profile


def _build_body(service: AppContext, profile: ProfileRow) -> ProfileSlotsBody:
    slots = _parse(profile)
    at_ms = _find_free(service, profile["id"], slots)
    return {
        "profileId": profile["id"],
        "zone": slots.zone,
        "weekly": list(slots.weekly),
        "next": None if at_ms is None else format_iso(at_ms),
    }


def _parse(profile: ProfileRow) -> WeeklySlots:
    return WeeklySlots(**json.loads(profile["slots"])) if profile["slots"] else WeeklySlots()


# --- Take a slot -----------------------------------------------------------------------------------------------------


def schedule(service: AppContext, scope: Scope, request: BatchRequest) -> BatchRequest:
    """Schedule a request with `slot` for the next free slot of its profile.

    Final only in the transaction that writes the posts. Raises ApiError `slots.none`, `slots.profile`, `not_found`.
    """
    profile = profiles.find_only(scope if request.profile_id is None else replace(scope, profile=request.profile_id))
    if profile is None:
        raise rule_error("slots.profile")
    slots = _parse(profile)
    at_ms = _find_free(service, profile["id"], slots)
    if at_ms is None:
        raise rule_error("slots.none", None if slots.weekly else "The profile has no slots.")
    return request if at_ms == request.scheduled_at else request.model_copy(update={"scheduled_at": at_ms})


def _find_free(service: AppContext, profile: str, slots: WeeklySlots) -> int | None:
    """Find the next free slot at least a minute ahead; None: there is none within the horizon."""
    if not slots.weekly:
        return None
    earliest = service.now_ms + LEAD_MIN_MS
    first_day = datetime.fromtimestamp(earliest / 1000, load_zone(slots.zone)).date()
    for week in range(HORIZON_WEEKS):
        times = [at_ms for at_ms in list_week(slots, first_day + timedelta(weeks=week)) if at_ms >= earliest]
        if times:
            taken = {at_ms for (at_ms,) in sql.fetch_all(queries.FIND_QUEUED_TIMES, (profile, times[0], times[-1]))}
            if free := [at_ms for at_ms in times if at_ms not in taken]:
                return free[0]
    return None


class PlannedSlot(NamedTuple):
    """Slot of a profile at an instant. `is_taken`: a post of the profile is queued for it."""

    at_ms: int
    profile: str
    profile_name: str
    is_taken: bool


def list_planned(scope: Scope, from_ms: int, to_ms: int) -> list[PlannedSlot]:
    """List the slots of the scope's profiles in [from, to), earliest first, up to a limit."""
    here = (Profile.organization == scope.organization) & Profile.deleted_at.is_null() & Profile.slots.is_null(False)
    if scope.profile is not None:
        here &= Profile.id == scope.profile
    rows = Profile.select().where(here).order_by(Profile.created_at, Profile.id).limit(PLANNED_PROFILES_MAX).dicts()
    slots = ((at_ms, row["id"], row["name"]) for row in rows for at_ms in _list_between(_parse(row), from_ms, to_ms))
    shown = sorted(slots)[:PLANNED_MAX]
    asked = sql.dump_json([(profile, at_ms) for at_ms, profile, _ in shown])
    taken = {place for (place,) in sql.fetch_all(queries.FIND_TAKEN, (asked,))}
    return [PlannedSlot(*slot, is_taken=place in taken) for place, slot in enumerate(shown)]


def _list_between(slots: WeeklySlots, from_ms: int, to_ms: int) -> Iterator[int]:
    day = datetime.fromtimestamp(from_ms / 1000, load_zone(slots.zone)).date()
    last = datetime.fromtimestamp(to_ms / 1000, load_zone(slots.zone)).date()
    while slots.weekly and day <= last:
        yield from (at_ms for at_ms in list_week(slots, day) if from_ms <= at_ms < to_ms)
        day += timedelta(weeks=1)


def list_week(slots: WeeklySlots, first_day: date) -> list[int]:
    """List the instants of the slots in the seven days from `first_day`, in their order."""
    days = [first_day + timedelta(days=offset) for offset in range(7)]
    by_name: dict[str, date] = {DAYS[day.weekday()]: day for day in days}
    return sorted(_list_instants(slots, by_name))


def _list_instants(slots: WeeklySlots, days: dict[str, date]) -> Iterator[int]:
    """Yield the instants of the slots on these days: the first of two, none for a skipped time."""
    zone = load_zone(slots.zone)
    for slot in slots.weekly:
        local = datetime.fromisoformat(f"{days[slot['day']]}T{slot['time']}")
        instant = local.replace(tzinfo=zone).astimezone(UTC)  # fold 0: the first of two
        if instant.astimezone(zone).replace(tzinfo=None) == local:
            yield int(instant.timestamp()) * 1000
