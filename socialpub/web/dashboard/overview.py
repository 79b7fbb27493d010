"""The overview: problems with their remedies, upcoming posts and recent posts."""

from __future__ import annotations

from typing import Any

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.accounts import accounts, connect
from socialpub.domain.background import pause_actions
from socialpub.domain.background.engine import HEARTBEAT_SECONDS
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.posts import drafts, overview, post_actions
from socialpub.domain.publishing import overdue_rule
from socialpub.domain.schemas.drafts import DraftsQuery
from socialpub.domain.schemas.posts import SettleRequest
from socialpub.domain.server import instance
from socialpub.web.dashboard import calendar, posts
from socialpub.web.dashboard.parts.layout import (
    explain,
    keep_form,
    redirect_with_flash,
    require_form_error,
    require_proof,
    show,
)
from socialpub.web.html import time_format
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext

TODAY_MAX = 30  # posts of the day
CARDS_MAX = 5  # publications in a list


async def show_overview(call: RequestContext) -> HandlerResponse:
    """GET /."""
    return await show(call, "overview/home.html", lambda session: _current_state(call, session))


def _current_state(call: RequestContext, session: DashboardSession) -> dict[str, Any]:
    service = call.service
    silent = service.runtime.clock.monotonic() - call.engine.heartbeat
    now = overview.load(service, session.scope)
    waiting = DraftsQuery.model_validate({"status": ["proposed"], "limit": CARDS_MAX})
    proposed = drafts.load_page(service, session.scope, waiting)
    return {
        "now": now,
        "today": _build_today(call, session),
        "proposed": proposed["data"],
        "more_proposed": proposed["nextCursor"] is not None,
        "next": posts.to_cards(service, session.scope, now.next)[:CARDS_MAX],
        "published": posts.to_cards(service, session.scope, now.published)[:CARDS_MAX],
        "silent": int(silent) if silent > HEARTBEAT_SECONDS else 0,
        "platforms": platforms.PLATFORMS,
        "ready": [name for name in platforms.PLATFORMS if connect.is_ready(service, name)],
        "pages": call.request.app.ctx.pages,
        "may_resume": pause_actions.may_resume(session.scope),
        "waiting_max": overview.WAITING_MAX,
        "unknown_max": overview.UNKNOWN_MAX,
        "problems_max": overview.PROBLEMS_MAX,
        "groups_max": overview.GROUPS_MAX,
    }


def _build_today(call: RequestContext, session: DashboardSession) -> dict[str, Any]:
    """Return this day with its `line`: publications, drafts and free slots by time."""
    today = time_format.to_local(call.service.now_ms, session.zone).date()
    (day,) = calendar.load_days(call, session, [today], TODAY_MAX)
    free = [slot | {"is_slot": True} for slot in day["slots"]]
    line = sorted([*day["entries"], *free], key=lambda each: int(each["at"]))
    return day | {"line": line}


async def settle(call: RequestContext) -> HandlerResponse:
    """POST /overview/settle: `post`, and whether the user found it `published`."""
    form = forms.parse(call)
    is_published = form.get("published") == "yes"
    request = SettleRequest(published=is_published)
    try:
        await actions.perform(call.actor, post_actions.settle, form.get("post", ""), request)
    except ApiError as error:
        return redirect_with_flash(call, "/", explain(require_form_error(error)), good=False)
    text = "The post is marked as published." if is_published else "The post is marked as failed. You can retry it."
    return redirect_with_flash(call, "/", text)


async def retry(call: RequestContext) -> HandlerResponse:
    """POST /overview/retry: the posts that failed for one cause."""
    form = forms.parse(call)
    cause = (form.get("account", ""), form.get("code", ""), form.get("rule", ""))
    again = await actions.perform(call.actor, overview.retry_all, *cause)
    return redirect_with_flash(call, "/", f"Retrying {_count_posts(again['count'])}.", good=bool(again["count"]))


async def confirm_cancel(call: RequestContext) -> HandlerResponse:
    """GET /overview/cancel: the effects of canceling an account's scheduled posts."""
    account = str(call.request.args.get("account") or "")
    return await show(
        call,
        "overview/cancel.html",
        lambda _: {
            "account": accounts.get_body(call.scope, account),
            "waiting": overview.count_waiting(call.scope, account),
        },
        platforms=platforms.PLATFORMS,
        waiting_max=overview.WAITING_MAX,
        at_once=overview.BULK_MAX,
    )


async def cancel(call: RequestContext) -> HandlerResponse:
    """POST /overview/cancel: cancel an account's scheduled posts."""
    canceled = await actions.perform(call.actor, overview.cancel_all, forms.parse(call).get("account", ""))
    return redirect_with_flash(call, "/", f"{_count_posts(canceled['count'])} canceled.", good=bool(canceled["count"]))


def _count_posts(count: object) -> str:
    return "1 post" if count == 1 else f"{count} posts"


async def resume(call: RequestContext) -> HandlerResponse:
    """POST /overview/resume: resume publishing; the user confirms that the clock is right."""
    await actions.perform(call.actor, pause_actions.trust_clock)
    return redirect_with_flash(call, "/", "Publishing resumed.")


async def confirm_resume_after_restore(call: RequestContext) -> HandlerResponse:
    """GET /overview/compare: the posts to check before publishing resumes after a restore."""

    def read(session: DashboardSession) -> dict[str, Any]:
        return {
            "paused": instance.get_pause_reason(),
            "may_resume": pause_actions.may_resume(session.scope),
            "late": overdue_rule.list_overdue(call.service.now_ms, pause_actions.SKIPPED_MAX + 1),
        }

    return await show(
        call,
        "overview/compare.html",
        read,
        platforms=platforms.PLATFORMS,
        most=pause_actions.SKIPPED_MAX,
        due_of=overdue_rule.get_due_time,
    )


async def resume_after_restore(call: RequestContext) -> HandlerResponse:
    """POST /overview/compare: `overdue_rule` is `publish` or `skip`."""
    form = forms.parse(call)
    try:
        if form.get("overdue") not in ("publish", "skip"):
            raise ApiError("validation_failed", "Choose what happens to the overdue posts.")
        await require_proof(call, form)
        done = await actions.perform(call.actor, pause_actions.resume_after_restore, skip=form["overdue"] == "skip")
    except ApiError as error:
        return await confirm_resume_after_restore(keep_form(call, require_form_error(error), form))
    skipped = f" {_count_posts(done['skipped'])} marked as failed." if done["skipped"] else ""
    return redirect_with_flash(call, "/", f"Publishing resumed.{skipped}")
