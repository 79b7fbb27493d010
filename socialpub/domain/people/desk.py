"""What the dashboard keeps of whoever looks at it: the profile that they are in, and the clock on their wall."""

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
    """Of somebody who is signed in. `profile` is the one they are in, None: in all of them at once."""

    scope: Scope  # narrowed to that profile: what lists are read in
    organization: str
    email: str
    role: str
    zone: str  # an IANA name
    chosen_zone: str | None  # by the person; None: the browser's counts
    profile: ProfileBody | None
    profiles: list[ProfileBody]
    proved_at: int  # when they last gave their password


def of(scope: Scope) -> Desk | None:
    """The desk of a session; None when it is over meanwhile."""
    row = sql.first(keys.DESK, (scope.session, scope.organization))
    if row is None:
        return None
    organization, email, chosen, seen, profile, proved_at = row
    there = profiles.listed(Scope(scope.organization))
    current = next((body for body in there if body["id"] == profile), None)
    narrowed = replace(scope, profile=current["id"]) if current else scope
    return Desk(narrowed, organization, email, scope.role, chosen or seen or UTC, chosen, current, there, proved_at)


def kept(scope: Scope, page: str) -> dict[str, str]:
    """What somebody had typed on this page when the session before this one ended."""
    form = Session.select(Session.kept).where(Session.id == scope.session).scalar()
    found = json.loads(form) if form else {}
    return found["fields"] if found.get("page") == page else {}


@cache
def zones() -> tuple[str, ...]:
    """The time zones that there are, by their IANA names."""
    return tuple(sorted(available_timezones()))


def known_zone(name: str | None) -> str | None:
    """The zone that a browser names, where it is one."""
    return name if name in zones() else None


def choose_zone(tx: Tx, who: Actor, zone: str | None) -> Done:
    """From now on times are shown in this zone; None: in the browser's. ApiError for one that does not exist."""
    if zone is not None and zone not in zones():
        raise ApiError("validation_failed", "There is no such time zone.")
    User.update(zone=zone).where(User.id == who.scope.user, User.organization == who.scope.organization).execute()
    return _here(who)


def choose_profile(tx: Tx, who: Actor, profile: str | None) -> Done:
    """From now on this session's pages show what belongs to this profile; None: to all. ApiError `not_found`."""
    profiles.check(Scope(who.scope.organization), profile)
    Session.update(profile=profile).where(Session.id == who.scope.session).execute()
    return _here(who)


def _here(who: Actor) -> Done:
    nothing: Body = {}
    return Done(nothing, subject=who.scope.user)
