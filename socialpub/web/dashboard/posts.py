"""Posts: the list with the API's filters, the page of a post, and its actions.

The query parameters are those of `GET /v1/posts`. A time bound may also be a day, which is one in the user's zone and
is included.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from socialpub import platforms
from socialpub.base.error_codes import ERRORS
from socialpub.base.errors import ApiError
from socialpub.base.runtime import format_iso
from socialpub.base.service_rules import SERVICE_RULES
from socialpub.domain import post_states
from socialpub.domain.access import actions
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.identity import dashboard_session
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.media.files import THUMBNAIL_EDGES
from socialpub.domain.posts import batch_log, edits, post_actions, post_log, publications
from socialpub.domain.posts.publications import Publication, PublicationTarget
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.posts import PostEditRequest, PostsQuery, RetryRequest, SettleRequest
from socialpub.store.rows import PostRow
from socialpub.web.dashboard.parts import draft_view
from socialpub.web.dashboard.parts.layout import explain, keep_form, redirect_with_flash, require_form_error, show
from socialpub.web.docs.reference import build_curl
from socialpub.web.html import time_format
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext, parse_query

CHIPS = {
    "Scheduled": ("queued",),
    "Failed or rejected": ("failed", "rejected"),
    "Published": ("published",),
    "Canceled": ("canceled",),
}
PAGE_SIZE = 40  # posts on a page of the list, which so stays below 60 kB
SOON_SHOWN_MS = 60_000  # the page of a post that is due within this refreshes itself
PICKED_MAX = 100  # publications that one form acts on
PICK = "pick."
DAYS = {"earlier": -1, "later": 1, "week": 7}
SOON_MS = 5_000  # from "Publish now" to the new time, which must still be to come when it is written
TYPED_FIELDS = {"day", "uri"}  # of the forms on the page of a post
DONE_WORDS = {"cancel": "canceled", "retry": "retried"} | dict.fromkeys(DAYS, "moved")
UNKNOWN_OUTCOME_RULE, STOPPED_RULE = "publish.outcome_unknown", "thread.previous_missing"
PLATFORM_LABELS = {name: row.label for name, row in platforms.PLATFORMS.items()}
WORDS_MAX = 200  # characters of a text in a list
RAW_MAX = 20_000  # characters of a platform's response on a page
TIME_BOUNDS = {"after": False, "before": True, "scheduledAfter": False, "scheduledBefore": True}
"""The time filters; True for those that end a period: a day given for them is included."""
FIRST_DAY, LAST_DAY = date(1970, 1, 1), date(9999, 12, 30)
"""Days of a filter beyond these mean these: nothing is earlier or later, and every zone has them."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


# --- The list ----------------------------------------------------------------------------------------------------


async def list_posts(call: RequestContext) -> HandlerResponse:
    """GET /posts."""
    given = _read_filters(call.request.query_string)
    view = _build_view(given)

    def read(session: DashboardSession) -> dict[str, Any]:
        views = dashboard_session.load_views(session.scope)
        try:
            found, problem = _read_page(call, session, given), ""
        except ApiError as error:
            found, problem = {"data": [], "nextCursor": None}, error.message
        return {
            "publications": to_cards(call.service, session.scope, found["data"]),
            "older": _filter_url(given | {"cursor": found["nextCursor"]}) if found["nextCursor"] else None,
            "problem": problem,
            "accounts": accounts.list_bodies(session.scope),
            "chips": _build_chips(session.scope),
            "views": views,
            "current": next((name for name, query in views.items() if query == view), None),
        }

    narrowing = {name: value for name, value in given.items() if name not in ("cursor", "order", "limit")}
    return await show(
        call,
        "posts/log.html",
        read,
        given=defaultdict(str, given),
        is_narrowed=bool(narrowing),
        first=_filter_url({name: value for name, value in given.items() if name != "cursor"}),
        here=_name_chip(narrowing.get("status", "")) if narrowing.keys() == {"status"} else _filter_url(narrowing),
        page=_filter_url(given),
        view=view,
        name_max=dashboard_session.VIEWS.name_max,
        labels=PLATFORM_LABELS,
        codes=list(ERRORS),
    )


def _build_chips(scope: Scope) -> list[tuple[str, str, str]]:
    """Return the quick filters of the list: address, words, and a count up to a limit."""
    counts = publications.count_by_status(scope)
    shown = [("/posts", "All", "")]
    for words, states in CHIPS.items():
        count = sum(counts.get(state, 0) for state in states)
        most = publications.COUNTED_MAX
        shown.append((_name_chip(",".join(states)), words, f"{most}+" if count > most else str(count)))
    return shown


def _name_chip(status: str) -> str:
    """Return the address of a quick filter: scheduled posts in the order in which they go out."""
    return f"/posts?status={status}" + ("&order=scheduledAt" if status == "queued" else "")


async def save_view(call: RequestContext) -> HandlerResponse:
    """POST /posts/views: save `query` as the view `name`; without it, delete the view."""
    form = forms.parse(call)
    name, view = form.get("name", "").strip(), _build_view(_read_filters(form.get("query", "")))
    try:
        await actions.perform(call.actor, dashboard_session.save_view, name, view)
    except ApiError as error:
        page = forms.to_local_path(form.get("page"))
        return redirect_with_flash(call, page, require_form_error(error).message, good=False)
    words = f"View “{name}” saved." if view else f"View “{name}” deleted."
    return redirect_with_flash(call, f"/posts?{view}" if view else "/posts", words)


def _build_view(given: Mapping[str, str]) -> str:
    """Return the filters as the query string that a view stores."""
    return urlencode(sorted((name, value) for name, value in given.items() if name not in ("cursor", "limit")))


def _read_filters(query: str) -> dict[str, str]:
    """Return a query's filters for the form: lists joined by commas, empty ones left out."""
    values = parse_query(query, PostsQuery)
    joined = {name: _join_values(value) for name, value in values.items()}
    return {name: value for name, value in joined.items() if value}


def _join_values(value: Any) -> str:
    return ",".join(filter(None, value)) if isinstance(value, list) else str(value)


def _filter_url(given: Mapping[str, str]) -> str:
    return "/posts" + (f"?{urlencode(given)}" if given else "")


def _read_page(call: RequestContext, session: DashboardSession, given: Mapping[str, str]) -> dict[str, Any]:
    bounds = {
        name: _bound(given[name], session.zone, is_end=TIME_BOUNDS[name]) for name in TIME_BOUNDS if name in given
    }
    values = parse_query(urlencode({"limit": str(PAGE_SIZE), **given, **bounds}), PostsQuery)
    query = validation.parse_object(PostsQuery, values)
    found: dict[str, Any] = json.loads(post_log.load_page(call.service, session.scope, query))
    return found


def _bound(value: str, zone: str, *, is_end: bool) -> str:
    """Return the API's exclusive time bound for a day in a zone; other values unchanged."""
    if not _DAY.fullmatch(value):
        return value
    try:
        day = min(max(date.fromisoformat(value), FIRST_DAY), LAST_DAY) + timedelta(days=is_end)
    except ValueError:
        return value
    at = time_format.parse_local(day.isoformat(), "00:00", zone)
    return value if at is None else str(format_iso(at if is_end else at - 1))


def cut_words(text: str, most: int = WORDS_MAX) -> str:
    """Return a text in one line, with an ellipsis if it is longer than a list shows."""
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1].rstrip()}…"


def to_view(post: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """Return a post for a template, with its state, platform and first words."""
    return post | {
        "state": _state(post, now_ms),
        "label": PLATFORM_LABELS[post["platform"]],
        "who": post["account"]["displayName"] or post["account"]["platformAccountId"],
        "words": cut_words(post["text"]),
    }


def to_cards(service: AppContext, scope: Scope, posts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return posts for a template, as one card for each publication."""
    now = service.now_ms
    return [_to_card(each, now) for each in publications.group(service, scope, posts)]


def _to_card(publication: Publication, now_ms: int) -> dict[str, Any]:
    targets = [to_target(target, now_ms) for target in publication.targets]
    marks = _pick_pieces(targets)
    waiting = [target.scheduled_at for target in publication.targets if target.status == "queued"]
    return {
        "posts": [to_view(post, now_ms) for post in publication.posts],
        "targets": targets,
        "marks": marks,
        "states": Counter(target["state"] for target in marks),
        "author": publication.author,
        "picture": publication.picture,
        "batch": publication.batch,
        "can_act": any(target.status in ("queued", "failed", "rejected") for target in publication.targets),
        "at": min((at for at in waiting if at is not None), default=None),
    }


def _pick_pieces(targets: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the targets with one piece of each thread.

    That is the first piece that is not published, or else the first.
    """
    found: dict[str, dict[str, Any]] = {}
    for target in targets:
        before = found.setdefault(target["first"], target)
        if before["state"] == "published" and target["state"] != "published":
            found[target["first"]] = target
    return list(found.values())


def to_target(target: PublicationTarget, now_ms: int) -> dict[str, Any]:
    """Return a target of a publication for a template, in the words of `to_view`."""
    shown: dict[str, Any] = {
        "status": target.status,
        "scheduledAt": format_iso(target.scheduled_at),
        "nextAttemptAt": format_iso(target.next_attempt_at),
    }
    if target.error_code:
        shown["error"] = {"rule": target.error_rule}
    state = _state(shown, now_ms)
    return {
        "id": target.id,
        "platform": target.platform,
        "label": PLATFORM_LABELS[target.platform],
        "who": target.name,
        "first": target.first,
        "piece": None if target.thread_position is None else target.thread_position + 1,
        "state": state,
        "is_under_way": state in ("validated", "publishing"),
        "link": target.url if str(target.url).startswith(("https://", "http://")) else None,
    }


def _state(post: Mapping[str, Any], now_ms: int) -> str:
    if post["status"] == "failed" and post.get("error", {}).get("rule") == UNKNOWN_OUTCOME_RULE:
        return "unknown"
    if post["status"] == "validated" and post["nextAttemptAt"] and "error" in post:
        return "retrying"
    if post["status"] == "queued" and post["scheduledAt"] < str(format_iso(now_ms - 60_000)):
        return "overdue"
    return str(post["status"])


# --- One post ----------------------------------------------------------------------------------------------------


async def read(call: RequestContext) -> HandlerResponse:
    """GET /posts/{id}."""
    return await _show_post(call, "posts/post.html")


async def confirm_cancel(call: RequestContext) -> HandlerResponse:
    """GET /posts/{id}/cancel: the effects."""
    return await _show_post(call, "posts/cancel.html")


async def confirm_settle(call: RequestContext) -> HandlerResponse:
    """GET /posts/{id}/settle: what to check, and the two answers."""
    return await _show_post(call, "posts/settle.html")


async def _show_post(call: RequestContext, template: str) -> HandlerResponse:
    id, now = call.path_value("post_id"), call.service.now_ms

    def read(session: DashboardSession) -> dict[str, Any]:
        post = to_view(json.loads(post_log.load_detail(call.scope, id)), now)
        post["attempts"] = [
            each | {"state": _attempt_state(post, each), "took": _duration(each)} for each in post["attempts"]
        ]
        row = post_log.find(call.scope, id)
        batch = post["batchId"]
        targets = [to_target(each, now) for each in publications.load_targets(call.scope, [batch])[batch]]
        return {
            "post": post,
            "targets": targets,
            "stopped_by": _find_stopping(post, targets),
            "author": publications.load_authors(call.scope, [batch]).get(batch),
            "files": _load_files(call.scope, post["mediaRefs"]),
            "options": draft_view.label_options(
                accounts.find_including_disconnected(call.scope, row["account"]), _chosen_options(row)
            ),
            "due": time_format.to_fields(post["scheduledAt"] or now + 3_600_000, session.zone),
            "due_ms": row["scheduled_at"],
            "today": time_format.to_fields(now, session.zone)["day"],
            "is_soon": post["status"] == "queued" and (row["scheduled_at"] or 0) < now + SOON_SHOWN_MS,
            "can_move": post["status"] == "queued" and row["scheduled_at"] is not None and row["scheduled_at"] > now,
            "is_waiting": post_states.is_waiting_piece(row),
            "raw": {attempt["id"]: _format_raw(attempt["platformResponse"]) for attempt in post["attempts"]},
            "remedies": {error["code"]: find_remedy(error) for error in [post.get("error")] if error},
            "commands": _build_curl_commands(call, post, _chosen_options(row)),
            "link": post["url"] if str(post["url"]).startswith(("https://", "http://")) else None,
        }

    return await show(call, template, read, problem=explain(call.form_error))


def _find_stopping(post: Mapping[str, Any], targets: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the piece that stopped the thread of a post; None if the post was not stopped."""
    if post["status"] != "failed" or post["error"].get("rule") != STOPPED_RULE:
        return None
    return _pick_pieces(target for target in targets if target["first"] == post["threadOf"])[0]


def _load_files(scope: Scope, refs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the media of a post for a template: thumbnails, or addresses elsewhere."""
    ids = [ref["mediaId"] for ref in refs if ref.get("mediaId")]
    pictures = publications.load_pictures(scope, ids, THUMBNAIL_EDGES[-1])
    return [
        {
            "kind": ref["kind"],
            "altText": ref.get("altText"),
            "thumbnail": pictures.get(ref.get("mediaId", "")),
            "elsewhere": ref.get("url"),
        }
        for ref in refs
    ]


def _chosen_options(row: PostRow) -> dict[str, Any]:
    """Return the options that the post was sent with."""
    options: dict[str, Any] = json.loads(row["options"])
    return {name: value for name, value in options.items() if name != "platform" and value not in (None, "", [])}


def _duration(attempt: Mapping[str, Any]) -> str:
    """Return how long an attempt took, in words; nothing while it runs, or for no time."""
    if not attempt["finishedAt"]:
        return ""
    start, end = (datetime.fromisoformat(attempt[name]) for name in ("startedAt", "finishedAt"))
    seconds = (end - start).total_seconds()
    return f"{seconds:.1f} s" if seconds >= 0.1 else ""


def find_remedy(error: Mapping[str, Any]) -> dict[str, str]:
    """Return the remedy of a post's error from its rule, and the address that explains it."""
    rule = error.get("rule")
    row = (platforms.CATALOGUE.get(rule) or SERVICE_RULES.get(rule)) if rule else None
    if row is not None:
        return {"text": error.get("remediation") or row.remediation, "address": f"/docs/rules/{quote(str(rule))}"}
    return {"text": error.get("remediation", ""), "address": f"/docs/errors/{error['code']}"}


def _attempt_state(post: Mapping[str, Any], attempt: Mapping[str, Any]) -> str:
    """Return an attempt's state in the words of posts: a rejected post has a rejected attempt."""
    if attempt["succeeded"] is not False:
        return "published" if attempt["succeeded"] else "publishing"
    if post["state"] == "unknown" and attempt is post["attempts"][-1]:
        return "unknown"
    error = ERRORS.get(attempt["errorCode"])
    return error.post_status if error else "failed"


def _format_raw(answer: Any) -> str:
    """Return the platform's response as text."""
    if answer is None:
        return ""
    text = answer if isinstance(answer, str) else json.dumps(answer, indent=2, ensure_ascii=False)
    return text if len(text) <= RAW_MAX else f"{text[:RAW_MAX]}\n…"


def _build_curl_commands(call: RequestContext, post: Mapping[str, Any], options: dict[str, Any]) -> dict[str, str]:
    """Return commands that read the post and send it again. The key is an environment variable."""
    base = call.service.base_url
    key: list[dict[str, Any]] = [{"apiKey": []}]
    target = {"accountId": post["accountId"]} | (
        {"options": {"platform": post["platform"]} | options} if options else {}
    )
    comment = post["firstComment"]
    body = {
        "targets": [target],
        "text": post["text"],
        "media": post["mediaRefs"],
        "firstComment": {"text": comment["text"]} if comment else None,
    }
    return {
        "read": build_curl("GET", f"{base}/v1/posts/{post['id']}", key),
        "send": build_curl("POST", f"{base}/v1/posts", key, {name: value for name, value in body.items() if value}),
    }


# --- Actions -----------------------------------------------------------------------------------------------------


async def reschedule(call: RequestContext) -> HandlerResponse:
    """POST /posts/{id}/move: to `day` and `clock` in `in_zone`, or `by` days.

    With `do=now` the post is published as soon as possible.
    """
    form, post = forms.parse(call), call.path_value("post_id")
    words = "The post is published in a few seconds." if form.get("do") == "now" else "Post rescheduled."
    return await _redirect_done(call, form, words, _reschedule(call, form, post))


async def _reschedule(call: RequestContext, form: Mapping[str, str], post: str) -> None:
    now = call.service.now_ms
    at = format_iso(now + SOON_MS) if form.get("do") == "now" else read_time(form, now)
    request = validation.parse_object(PostEditRequest, {"scheduledAt": at})
    await actions.perform_bound(await edits.prepare_post(call.actor, post, request, {}))


async def cancel(call: RequestContext) -> HandlerResponse:
    """POST /posts/{id}/cancel."""
    form = forms.parse(call)
    doing = actions.perform(call.actor, post_actions.cancel, call.path_value("post_id"))
    return await _redirect_done(call, form, "Post canceled.", doing)


async def retry(call: RequestContext) -> HandlerResponse:
    """POST /posts/{id}/retry: now, or at `day` and `clock`."""
    form = forms.parse(call)
    later = "day" in form
    words = "Retry scheduled." if later else "Retrying."
    return await _redirect_done(call, form, words, _retry(call, form, later=later))


async def _retry(call: RequestContext, form: Mapping[str, str], *, later: bool) -> None:
    given = {"scheduledAt": read_time(form, call.service.now_ms)} if later else {}
    await actions.perform(
        call.actor, post_actions.retry, call.path_value("post_id"), validation.parse_object(RetryRequest, given)
    )


async def settle(call: RequestContext) -> HandlerResponse:
    """POST /posts/{id}/settle: `published` is `yes` or `no`; `uri` is optional."""
    form = forms.parse(call)
    there = form.get("published") == "yes"
    words = "The post is marked as published." if there else "The post is marked as failed. You can retry it."
    return await _redirect_done(call, form, words, _settle(call, form))


async def _settle(call: RequestContext, form: Mapping[str, str]) -> None:
    found = {"yes": True, "no": False}.get(form.get("published", ""))
    given = {"published": found} | ({"uri": form["uri"]} if found and form.get("uri") else {})
    await actions.perform(
        call.actor, post_actions.settle, call.path_value("post_id"), validation.parse_object(SettleRequest, given)
    )


async def act_on_several(call: RequestContext) -> HandlerResponse:
    """POST /posts/bulk: act on each publication `pick.{batch}`, as `do` says.

    The value of `pick.{batch}` is the time that was shown. Every publication has its own transaction. The page that
    follows names each that was refused.
    """
    form = forms.parse(call)
    picked = {name.removeprefix(PICK): seen for name, seen in form.items() if name.startswith(PICK)}
    do, page = form.get("do", ""), forms.to_local_path(form.get("page"))
    if do not in DONE_WORDS or not 0 < len(picked) <= PICKED_MAX:
        return redirect_with_flash(call, page, f"Choose 1 to {PICKED_MAX} posts, and what to do.", good=False)
    refused = {batch: found for batch, seen in picked.items() if (found := await _act_on(call, form, batch, seen))}
    done = [seen for batch, seen in picked.items() if batch not in refused]
    words = f"{time_format.pluralize(len(done), 'post')} {DONE_WORDS[do]}."
    if do in DAYS:
        words += _tell_skipped(done, DAYS[do], read_zone(form))
    if not refused:
        return redirect_with_flash(call, page, words)
    refusals, title = list(refused.values()), "Not all posts were changed" if done else "No post was changed"
    words = f"{words} {len(refused)}" if done else time_format.pluralize(len(refused), "post")
    shown: dict[str, Any] = {"title": title, "home": ("/posts", "Posts"), "back": page}
    return await show(call, "refused.html", status=200 if done else 409, refused=refusals, words=words, **shown)


def _tell_skipped(moved: Iterable[str], days: int, zone: str) -> str:
    """Return a sentence for each time that the clocks skip.

    `moved`: when the posts were due before.
    """
    due = Counter(time_format.add_days(int(seen), days, zone) for seen in moved)
    return "".join(
        f" Clocks skip {clock} on that day: {time_format.pluralize(count, 'post')} moved to "
        f"{time_format.format_instant(at_ms, zone)} instead."
        for (at_ms, clock), count in sorted(due.items())
        if clock
    )


async def _act_on(call: RequestContext, form: Mapping[str, str], batch: str, seen: str) -> dict[str, str] | None:
    """Act on one publication; return its text and the reason if that was refused."""
    targets = (await call.service.read(lambda: publications.load_targets(call.scope, [batch])))[batch]
    if not targets:
        return {"address": "", "words": "A post", "reason": "There is no such post."}
    try:
        await _perform_on(call, form, batch, seen, targets)
    except ApiError as error:
        if error.code in ("unauthenticated", "unauthorized"):
            raise
        row = await call.service.read(lambda: post_log.find(call.scope, targets[0].id))
        words = cut_words(row["text"])
        return {"address": f"/posts/{targets[0].id}", "words": words, "reason": explain(error)}
    return None


async def _perform_on(
    call: RequestContext, form: Mapping[str, str], batch: str, seen: str, targets: Sequence[PublicationTarget]
) -> None:
    do = form["do"]
    if do == "cancel":
        await actions.perform(call.actor, batch_log.cancel, batch)
    elif do == "retry":
        failed = [target for target in targets if _can_retry(target)]
        if not failed:
            raise ApiError("validation_failed", "None of its targets can be retried.", status=409)
        for target in failed:
            await actions.perform(call.actor, post_actions.retry, target.id, validation.parse_object(RetryRequest, {}))
    else:
        seen_ms = time_format.parse_ms(seen)
        if seen_ms is None:
            raise ApiError("validation_failed", "It is not scheduled.", status=409)
        at_ms, _ = time_format.add_days(seen_ms, DAYS[do], read_zone(form))
        await actions.perform_bound(await batch_log.prepare_move(call.actor, batch, seen_ms, at_ms))


def _can_retry(target: PublicationTarget) -> bool:
    """Return whether a target can be retried.

    An unknown outcome is settled instead, and a stopped piece of a thread follows by itself.
    """
    is_failed = target.status in ("failed", "rejected")
    return is_failed and target.error_rule not in (UNKNOWN_OUTCOME_RULE, STOPPED_RULE)


async def _redirect_done(
    call: RequestContext, form: Mapping[str, str], words: str, doing: Awaitable[object]
) -> HandlerResponse:
    """Run an action and redirect with its outcome: to the previous page, or to the post.

    The page of the post shows its own forms again if they are refused, with what was typed.
    """
    post, page = f"/posts/{call.path_value('post_id')}", form.get("page", "")
    back = forms.to_local_path(page) if page and not page.startswith("/posts/") else post
    try:
        await doing
    except ApiError as error:
        refusal = require_form_error(error)
        if back == post and form.keys() & TYPED_FIELDS:
            return await _show_post(keep_form(call, refusal, form), "posts/post.html")
        return redirect_with_flash(call, back, explain(refusal), good=False)
    return redirect_with_flash(call, back, words)


def read_time(form: Mapping[str, str], now_ms: int) -> str:
    """Return the form's time as the API writes it. Raises an ApiError for an invalid one.

    A time that the clocks show twice is the one before the form, `from`, or else the first that is not over.
    """
    zone, day, clock = read_zone(form), _day(form), form.get("clock", "")
    try:
        instants = time_format.list_instants(day, clock, zone)
    except (ValueError, OverflowError):
        raise ApiError("validation_failed", "Choose a day and a time.") from None
    if not instants:
        message = f"{clock} does not exist on this day: the clock is set forward over it. Choose another time."
        raise ApiError("validation_failed", message)
    before = [at for at in instants if f"{at}" == form.get("from")]
    return str(format_iso([*before, *(at for at in instants if at > now_ms), instants[0]][0]))


def read_zone(form: Mapping[str, str]) -> str:
    """Return the time zone that a form's times are in."""
    return dashboard_session.find_zone(form.get("in_zone")) or dashboard_session.UTC


def _day(form: Mapping[str, str]) -> str:
    by = {"-1": -1, "1": 1}.get(form.get("by", ""), 0)
    try:
        return (date.fromisoformat(form.get("day", "")) + timedelta(days=by)).isoformat()
    except (ValueError, OverflowError):
        return ""
