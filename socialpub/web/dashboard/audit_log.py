"""The audit log page, filtered by person, kind and day in the query string."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

from socialpub.base.errors import ApiError
from socialpub.domain.access import audit_log_query
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.web.dashboard.parts import audit_labels
from socialpub.web.dashboard.parts.layout import show
from socialpub.web.html import time_format
from socialpub.web.http.handler import HandlerResponse, RequestContext

LOG_PATH = "/settings/log"
FILTER_FIELDS = ("person", "kind", "from", "until")


async def show_log(call: RequestContext) -> HandlerResponse:
    """GET /settings/log: `person`, `kind`, `from`, `until`, `cursor`."""
    args = call.request.args
    given = {name: str(args.get(name) or "")[:100] for name in (*FILTER_FIELDS, "cursor")}
    routes = call.request.app.ctx.routes

    def read(session: DashboardSession) -> dict[str, Any]:
        people = audit_log_query.list_users(call.scope)
        try:
            page = audit_log_query.load_page(
                call.service, call.scope, _parse_filter(given, session.zone, people, routes)
            )
        except ApiError as error:
            nothing = audit_log_query.AuditPage((), {}, {}, None)
            return {"page": nothing, "people": people, "problem": error.message, "narrowed": True}
        narrowed = {name: given[name] for name in FILTER_FIELDS if given[name]}
        older = f"{LOG_PATH}?{urlencode(narrowed | {'cursor': page.cursor})}" if page.cursor else None
        newest = f"{LOG_PATH}?{urlencode(narrowed)}" if given["cursor"] else None
        return {"page": page, "people": people, "problem": "", "older": older, "newest": newest, "narrowed": narrowed}

    empty: dict[str, Any] = {"older": None, "newest": None, "narrowed": {}}
    words = audit_labels.build_labels(routes)
    retention = int(call.service.runtime.settings.retention.audit // (24 * 3600))  # days
    shown: dict[str, Any] = {"given": given, "kinds": audit_labels.KIND_LABELS, "words": words, "kept": retention}
    shown["name_stranger"] = audit_labels.name_stranger
    return await show(call, "settings/log.html", lambda session: empty | read(session), **shown)


def _parse_filter(
    given: dict[str, str], zone: str, people: list[tuple[str, str]], routes: Any
) -> audit_log_query.AuditFilter:
    """Return the query's filter. Raises `validation_failed` for an unknown person, kind or day."""
    person, kind = given["person"] or None, given["kind"] or None
    if person is not None and person not in dict(people):
        raise ApiError("validation_failed", "This organization has no such member.")
    if kind is not None and kind not in audit_labels.KIND_LABELS:
        raise ApiError("validation_failed", "There is no such kind of action.")
    verbs = audit_labels.list_verbs(kind, routes) if kind else None
    since, until = _parse_day(given["from"], zone), _parse_day(given["until"], zone, ends=True)
    return audit_log_query.AuditFilter(person, verbs, since, until, given["cursor"] or None)


def _parse_day(day: str, zone: str, *, ends: bool = False) -> int | None:
    """Return the start or end of a day in Unix milliseconds, or None without a day."""
    if not day:
        return None
    try:
        first = date.fromisoformat(day) + timedelta(days=ends)
    except (ValueError, OverflowError):
        raise ApiError("validation_failed", "Write a day like 2026-01-31.") from None
    return time_format.parse_local(first.isoformat(), "00:00", zone)
