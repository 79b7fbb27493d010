"""Dashboard preferences of a signed-in user: selected profile and time zone."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from zoneinfo import available_timezones

from socialpub.base.errors import ApiError
from socialpub.domain.people import profiles
from socialpub.domain.people.actor import Actor, Body, Done
from socialpub.domain.people.tenancy import Scope
from socialpub.domain.shapes.profiles import ProfileBody
from socialpub.store import sql
from socialpub.store.db import Tx
from socialpub.store.models import Session, User
from socialpub.store.statements import keys

UTC = "UTC"


@dataclass(frozen=True)
class Desk:
    """Dashboard session of a user. `profile` None: all profiles."""

    scope: Scope  # narrowed to the selected profile
    organization: str
    email: str
    role: str
    zone: str  # IANA name
    chosen_zone: str | None  # None: the browser's zone applies
    profile: ProfileBody | None
    profiles: list[ProfileBody]
    proved_at: int  # last password check, epoch milliseconds


def of(scope: Scope) -> Desk | None:
    """Load the dashboard state of a session; None if the session has ended."""
    row = sql.first(keys.DESK, (scope.session, scope.organization))
    if row is None:
        return None
    organization, email, chosen, seen, profile, proved_at = row
    there = profiles.listed(Scope(scope.organization))
    current = next((body for body in there if body["id"] == profile), None)
    narrowed = replace(scope, profile=current["id"]) if current else scope
    return Desk(narrowed, organization, email, scope.role, chosen or seen or UTC, chosen, current, there, proved_at)


def kept(scope: Scope, page: str) -> dict[str, str]:
    """Return the form fields saved on this page when the previous session ended."""
    form = Session.select(Session.kept).where(Session.id == scope.session).scalar()
    found = json.loads(form) if form else {}
    return found["fields"] if found.get("page") == page else {}


@cache
def zones() -> tuple[str, ...]:
    """List the IANA time zone names."""
    return tuple(sorted(available_timezones()))


def known_zone(name: str | None) -> str | None:
    """Return the browser's time zone if it is a known one."""
    return name if name in zones() else None


def choose_zone(tx: Tx, who: Actor, zone: str | None) -> Done:
    """Set the time zone of the user; None: the browser's. Raises ApiError if unknown."""
    if zone is not None and zone not in zones():
        raise ApiError("validation_failed", "There is no such time zone.")
    User.update(zone=zone).where(User.id == who.scope.user, User.organization == who.scope.organization).execute()
    return _here(who)


def choose_profile(tx: Tx, who: Actor, profile: str | None) -> Done:
    """Select a profile for this session; None: all. Raises ApiError `not_found`."""
    profiles.check(Scope(who.scope.organization), profile)
    Session.update(profile=profile).where(Session.id == who.scope.session).execute()
    return _here(who)


def _here(who: Actor) -> Done:
    nothing: Body = {}
    return Done(nothing, subject=who.scope.user)
