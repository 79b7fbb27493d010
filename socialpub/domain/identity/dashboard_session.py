"""Dashboard preferences of a signed-in user: selected profile and time zone."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from socialpub.base.errors import ApiError
from socialpub.base.time_zones import list_zones
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.named_values import NamedValues
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.profiles import ProfileBody
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import authentication
from socialpub.store.schema.models import Session, User

UTC = "UTC"
VIEWS_MAX, VIEW_QUERY_MAX = 10, 600  # saved views of a user; all are on the page of the posts
VIEWS = NamedValues(
    "view",
    VIEWS_MAX,
    40,
    VIEW_QUERY_MAX,
    f"Up to {VIEWS_MAX} views can be saved, with filters of up to {VIEW_QUERY_MAX:,} characters.",
)


@dataclass(frozen=True)
class DashboardSession:
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


def load(scope: Scope) -> DashboardSession | None:
    """Load the dashboard state of a session; None if the session has ended."""
    row = sql.fetch_one(authentication.FIND_DASHBOARD_SESSION, (scope.session, scope.organization))
    if row is None:
        return None
    organization, email, chosen, seen, profile, proved_at = row
    bodies = profiles.list_bodies(Scope(scope.organization))
    current = next((body for body in bodies if body["id"] == profile), None)
    narrowed = replace(scope, profile=current["id"]) if current else scope
    return DashboardSession(
        narrowed, organization, email, scope.role, chosen or seen or UTC, chosen, current, bodies, proved_at
    )


def load_current(scope: Scope) -> DashboardSession:
    """Load the dashboard state of a session. Raises ApiError `unauthenticated` if it has ended."""
    found = load(scope)
    if found is None:
        raise ApiError("unauthenticated")
    return found


def load_saved_form(scope: Scope, page: str) -> dict[str, str]:
    """Return the form fields saved on this page when the previous session ended."""
    form = Session.select(Session.kept).where(Session.id == scope.session).scalar()
    saved = json.loads(form) if form else {}
    return saved["fields"] if saved.get("page") == page else {}


def find_zone(name: str | None) -> str | None:
    """Return the browser's time zone if it is a known one."""
    return name if name in list_zones() else None


def set_zone(tx: Tx, who: Actor, zone: str | None) -> ActionResult:
    """Set the time zone of the user; None: the browser's. Raises ApiError if unknown."""
    if zone is not None and zone not in list_zones():
        raise ApiError("validation_failed", "There is no such time zone.")
    User.update(zone=zone).where(who.scope.user_filter).execute()
    return ActionResult({}, subject=who.scope.user)


def load_views(scope: Scope) -> dict[str, str]:
    """Return the user's saved filters of the list of posts: their query strings, by name."""
    views = User.select(User.views).where(scope.user_filter).scalar()
    return json.loads(views) if views else {}


def save_view(tx: Tx, who: Actor, name: str, query: str) -> ActionResult:
    """Save a query under a name; an empty one deletes the view. Raises ApiError beyond limits."""
    saved = VIEWS.change(load_views(who.scope), name, query)
    User.update(views=saved).where(who.scope.user_filter).execute()
    return ActionResult({}, subject=who.scope.user)


def select_profile(tx: Tx, who: Actor, profile: str | None) -> ActionResult:
    """Select a profile for this session; None: all. Raises ApiError `not_found`."""
    profiles.check_profile(Scope(who.scope.organization), profile)
    Session.update(profile=profile).where(Session.id == who.scope.session).execute()
    return ActionResult({}, subject=who.scope.user)
