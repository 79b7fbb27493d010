"""Compose: one text for several accounts, with variants, checked like the API and sent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

from typing_extensions import TypedDict

from socialpub import platforms
from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access import actions, idempotency
from socialpub.domain.access.preconditions import compute_tag, require_tag
from socialpub.domain.accounts import account_groups, accounts, boards
from socialpub.domain.identity import dashboard_session
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.media import library
from socialpub.domain.posts import drafts, edits, post_log, preflight, slots
from socialpub.domain.posts.targets import ResolvedTarget
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.drafts import DraftBody, DraftRequest
from socialpub.domain.schemas.media import MediaFields, MediaQuery
from socialpub.domain.schemas.posts import (
    PIECES_MAX,
    BatchRequest,
    PostEditRequest,
    PostsQuery,
    TextCount,
    ValidateRequest,
    ValidationResult,
)
from socialpub.platforms.contract import Board, DraftMedia, MediaKind
from socialpub.platforms.kit.options import OptionField, list_fields
from socialpub.store.rows import AccountRow, DraftStatus, MediaRow
from socialpub.web.api import drafts as drafts_api
from socialpub.web.api import media as media_api
from socialpub.web.api import posts as posts_api
from socialpub.web.api.accounts import fetch_boards
from socialpub.web.dashboard import media
from socialpub.web.dashboard.parts import compose_form, draft_view, edited_content, edited_items, thread_pieces
from socialpub.web.dashboard.parts.compose_form import FieldMessage, FieldMessages
from socialpub.web.dashboard.parts.edited_content import EditedItem
from socialpub.web.dashboard.parts.layout import redirect_with_flash, require_form_error, show
from socialpub.web.docs.reference import build_curl
from socialpub.web.html import time_format
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.multipart import PageUploadForm

COMPOSE_PATH = "/compose"
DRAFTS_PATH = "/drafts"
BODY_MAX = 512 * 1024
ACCOUNTS_SHOWN_MAX = 100
FIELDS_MAX = 2500
"""The most accounts on a page, and the most fields of its form: each account has several."""
RECENT_FILES_MAX = 12
WAIT_SECONDS = 10.0
HOUR_MS = 3_600_000
_KEY = re.compile(r"[0-9a-f]{32}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_CLOCK = re.compile(r"\d\d:\d\d", re.ASCII)
_UNSENT = ("csrf_token", "page", "do", "key", "file", "new-alt", "seen", "was", "save_key", "group", "group_name")
"""Fields that say nothing of the post."""
TIME_FIELDS = ("scheduledAt", "slot", "profileId")
"""Fields of a request that say when."""
Form = dict[str, str]


# --- The page --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FormFindings:
    """Errors and warnings of a form by field, boards by account, and a summary in `words`.

    `is_sent`: the form's Idempotency-Key was used, so the form gets a new one.
    """

    wrong: FieldMessages = field(default_factory=dict)
    warned: FieldMessages = field(default_factory=dict)
    words: str = ""
    status: int = 200
    is_sent: bool = False
    boards: Mapping[str, Sequence[Board]] = field(default_factory=dict)  # by account id
    previews: Sequence[Mapping[str, Any]] = ()  # of each target, as its platform would be sent it
    command: str = ""  # the form as a request of the API
    conflict: str = ""  # the ETag of the edited item, where it has changed since the form was filled


NO_FINDINGS = FormFindings()


async def show_form(call: RequestContext) -> HandlerResponse:
    """GET /compose: an empty form, one that changes `draft` or `post`, or a copy of `from`.

    `day` and `clock` preset the time.
    """
    arguments = call.request.args
    named = {name: arguments.get(name) or "" for name in ("draft", "post")}
    if any(named.values()):
        return await _show_item(call, named)
    day, post = arguments.get("day") or "", arguments.get("from")
    if post:
        given, left = await call.service.read(lambda: _copy_post(call, post))
        return await _page(call, given, FormFindings(left))
    clock = call.request.args.get("clock") or ""
    preset = {"when": "later", "day": day} | ({"clock": clock} if _CLOCK.fullmatch(clock) else {})
    return await _page(call, preset if _DAY.fullmatch(day) else {})


async def _show_item(call: RequestContext, named: Form) -> HandlerResponse:
    """Show the form of a draft or queued post, or if it is closed, its own page."""

    def read() -> tuple[EditedItem, bool, Form, FieldMessages]:
        session = dashboard_session.load_current(call.scope)
        item = edited_items.load(call.scope, named)
        if item is None:
            raise ApiError("unauthenticated")
        fields, notes = edited_items.fill_form(item, session.zone)
        return item, edited_items.is_open(call.service, item, call.scope), fields, notes

    item, is_open, fields, notes = await call.service.read(read)
    if not is_open:
        return redirect_with_flash(call, edited_items.find_page(item), edited_items.explain_closed(item), good=False)
    kept = {} if call.request.args.get("kept") else fields
    return await _page(call, kept, FormFindings(warned=notes))


def _copy_post(call: RequestContext, post: str) -> tuple[Form, FieldMessages]:
    """Return the form that copies a post with its whole thread, and what is not copied."""
    shown = json.loads(post_log.load_detail(call.scope, post))
    if shown["threadOf"]:
        return _copy_post(call, shown["threadOf"])
    form, problems = compose_form.from_post(shown, json.loads(post_log.find(call.scope, post)["options"]))
    if shown["threadPosition"] is None:
        return form, problems
    thread = edited_content.write_copied_thread(shown["mediaRefs"], _list_later_pieces(call, shown))
    note = [] if thread else [FieldMessage("Its thread has a file twice, so only its first post is copied.")]
    return form | thread, {**problems, compose_form.TOP: note}


def _list_later_pieces(call: RequestContext, first: dict[str, Any]) -> list[dict[str, Any]]:
    """Return text and files of the pieces of a thread after its first post."""
    query = {"batchId": first["batchId"], "accountId": first["accountId"], "limit": PIECES_MAX + 1}
    found = json.loads(post_log.load_page(call.service, call.scope, PostsQuery.model_validate(query)))["data"]
    pieces = [each for each in found if each["threadOf"] == first["id"]]
    pieces.sort(key=lambda each: int(each["threadPosition"]))
    return [{"text": each["text"], "media": each["mediaRefs"]} for each in pieces]


@dataclass(frozen=True)
class ComposeData:
    """The rows and fields that a page of the form shows."""

    session: DashboardSession
    form: Form
    accounts: list[AccountRow]
    hidden: int  # accounts left out of the page
    chosen: dict[str, MediaRow | None]  # by name in the form; None for a file elsewhere
    shelf: list[dict[str, Any]]
    item: EditedItem | None  # what the form changes; None: a new post
    slots: list[dict[str, Any]]  # next free slot of each profile of the accounts
    groups: dict[str, list[str]]  # ids of the accounts of each group that are on the page
    customized: set[str]  # ids of accounts whose own fields the form has, whether they are chosen or not


async def _page(call: RequestContext, given: Form, findings: FormFindings = NO_FINDINGS) -> HandlerResponse:
    data = await call.service.read(lambda: _load(call, given))
    counts = await _counts(call, data)
    return await show(
        call,
        "compose/form.html",
        status=findings.status,
        item=data.item,
        item_page=edited_items.find_page(data.item) if data.item else "",
        conflict=findings.conflict,
        command=findings.command,
        previews=findings.previews,
        slots=data.slots,
        folds=compose_form.list_folds(data.form),
        warned=findings.warned,
        needs_approval=not drafts.can_publish_directly(call.service, call.scope),
        form=defaultdict(str, data.form),
        key=_key(call, "" if findings.is_sent else data.form.get("key", "")),
        accounts=[_account(call, data, row, counts.get(row["id"]), findings) for row in data.accounts],
        hidden=data.hidden,
        groups=data.groups,
        group_name_max=account_groups.GROUPS.name_max,
        files=[_file(call, name, row, data.form) for name, row in data.chosen.items()],
        pieces=await _list_pieces(call, data),
        pieces_max=PIECES_MAX,
        shelf=data.shelf,
        kinds=media.KINDS,
        wrong=findings.wrong,
        words=findings.words,
        is_bad=any(findings.wrong.values()),
        due=time_format.to_fields(_next_hour(call.service.now_ms), data.session.zone),
        today=time_format.to_fields(call.service.now_ms, data.session.zone)["day"],
    )


def _load(call: RequestContext, given: Form) -> ComposeData:
    session = dashboard_session.load_current(call.scope)
    groups = account_groups.load(call.scope.organization)
    typed = _start_form(call, given, groups)
    named_item = {name: typed.get(name) or call.request.args.get(name) or "" for name in ("draft", "post")}
    item = edited_items.load(call.scope, named_item)
    named = set(compose_form.list_accounts(typed))
    rows = [row for row in accounts.list_rows(call.scope) if row["id"] in named or _is_in_profile(session, row)]
    if item is not None and item.account:
        rows = [row for row in rows if row["id"] == item.account]
    rows.sort(key=lambda row: row["id"] not in named)
    shown = sorted(rows[:ACCOUNTS_SHOWN_MAX], key=lambda row: (row["platform"], row["created_at"], row["id"]))
    if item is None and call.route.method == "GET" and not any(name.startswith("to.") for name in typed):
        typed |= _preselect(shown)
    if item is not None:
        typed = {"seen": item.tag, **typed, item.kind: item.id}
    typed = thread_pieces.arrange(typed, compose_form.list_media(typed))
    ids = compose_form.list_media({name: value for name, value in typed.items() if name.startswith("media.")})
    held = library.load_all(call.scope, set(ids))
    query = validation.parse_object(MediaQuery, {"limit": RECENT_FILES_MAX})
    listed = library.load_page(call.service, session.scope, query)["data"]
    return ComposeData(
        session,
        typed,
        shown,
        len(rows) - len(shown),
        {each: held.get(each) for each in ids if each in held or compose_form.parse_link(each)},
        [media.to_view(body) for body in listed if body["id"] not in ids],
        item,
        [] if item is not None and item.account else _load_slots(call, shown),
        _list_groups(groups, shown),
        {name.partition(".")[0] for name in typed} | {typed.get("customize", ""), typed.get("boards", "")},
    )


def _start_form(call: RequestContext, given: Form, groups: Mapping[str, Sequence[str]]) -> Form:
    """Return the form as given, or as kept at sign-in.

    Where a `group` was pressed, its accounts alone are chosen.
    """
    form = given
    if not form and call.request.args.get("kept"):
        form = dashboard_session.load_saved_form(call.scope, COMPOSE_PATH)
    if not (group := groups.get(form.get("group", ""))):
        return form
    others = {name: value for name, value in form.items() if not name.startswith("to.")}
    return others | {f"to.{id}": "yes" for id in group}


def _list_groups(groups: Mapping[str, Sequence[str]], rows: Sequence[AccountRow]) -> dict[str, list[str]]:
    """Return the groups with accounts among these, by name, with those."""
    shown = {row["id"] for row in rows}
    found = {name: [id for id in ids if id in shown] for name, ids in sorted(groups.items())}
    return {name: ids for name, ids in found.items() if ids}


def _load_slots(call: RequestContext, rows: Sequence[AccountRow]) -> list[dict[str, Any]]:
    """Load the next free slot of each profile that has slots."""
    profiles = dict.fromkeys(row["profile"] for row in rows)
    bodies = [slots.load_body(call.service, replace(call.scope, profile=profile)) for profile in profiles]
    return [dict(body) for body in bodies if body["weekly"]]


def _is_in_profile(session: DashboardSession, row: AccountRow) -> bool:
    return session.scope.profile in (None, row["profile"])


def _preselect(rows: Sequence[AccountRow]) -> Form:
    """Return a new form's preselected accounts: the only one, if there is one."""
    return {f"to.{rows[0]['id']}": "yes"} if len(rows) == 1 and rows[0]["status"] != "revoked" else {}


def _next_hour(now_ms: int) -> int:
    return (now_ms // HOUR_MS + 2) * HOUR_MS


def _key(call: RequestContext, given: str) -> str:
    """Return the form's Idempotency-Key, or a new one."""
    return given if _KEY.fullmatch(given) else call.service.runtime.entropy(16).hex()


# --- Accounts on it --------------------------------------------------------------------------------------------------


async def _counts(call: RequestContext, data: ComposeData) -> dict[str, TextCount]:
    """Return the text length of each chosen account."""
    rows = _list_chosen(data)
    default = compose_form.read_field(data.form, "text")
    texts = [
        (row, _items(data, row["id"]), compose_form.read_field(data.form, f"{row['id']}.text") or default)
        for row in rows
    ]
    counts = await preflight.count_texts(call.service, call.scope, texts)
    return {row["id"]: count for row, count in zip(rows, counts, strict=True)}


def _list_chosen(data: ComposeData) -> list[AccountRow]:
    named = set(compose_form.list_accounts(data.form))
    return [row for row in data.accounts if row["id"] in named]


async def _list_pieces(call: RequestContext, data: ComposeData) -> list[dict[str, Any]]:
    """Return the pieces for the template, with the length of each on each platform."""
    numbers = thread_pieces.list_numbers(data.form)
    rows = [
        row
        for row in _list_chosen(data)
        if platforms.platform(row["platform"]).thread and not compose_form.is_alone(data.form, row["id"])
    ]
    words = {each: compose_form.read_field(data.form, thread_pieces.name_piece(each)) for each in numbers}
    texts = [(row, _items(data, row["id"], each), words[each]) for each in numbers for row in rows]
    counts = iter(await preflight.count_texts(call.service, call.scope, texts))
    found = []
    for each in numbers:
        labeled = [(platforms.platform(row["platform"]).label, next(counts)) for row in rows]
        distinct = [pair for index, pair in enumerate(labeled) if pair not in labeled[:index]]
        name = thread_pieces.name_piece(each)
        found.append({"number": each, "name": name, "text": data.form[name], "counts": distinct})
    return found


def _items(data: ComposeData, account: str, piece: int = 0) -> tuple[DraftMedia, ...]:
    """Return the files that an account gets with a post of the thread."""
    included = {
        name: row
        for name, row in data.chosen.items()
        if thread_pieces.find_number(data.form, name) == piece
        and (piece or not data.form.get(compose_form.name_exclusion_field(account, name)))
    }
    return tuple(
        DraftMedia(row["kind"] if row else _find_kind(name), stored=row is not None) for name, row in included.items()
    )


def _find_kind(name: str) -> MediaKind:
    link = compose_form.parse_link(name)
    return link[0] if link else "image"


def _account(
    call: RequestContext, data: ComposeData, row: AccountRow, count: TextCount | None, findings: FormFindings
) -> dict[str, Any]:
    id, platform = row["id"], platforms.platform(row["platform"])
    has_fields = id in data.customized or any(name.startswith(f"{id}.") for name in findings.wrong)
    fields = [_field(data.form, row, each, findings) for each in list_fields(platform.options) if has_fields]
    frequent = [each for each in fields if each["option"].name in platform.frequent_options]
    rare = [each for each in fields if each["option"].name not in platform.frequent_options]
    firsts = [(n, name) for n, name in enumerate(data.chosen, 1) if not thread_pieces.find_number(data.form, name)]
    left_out = [(compose_form.name_exclusion_field(id, name), n - 1) for n, name in firsts] if count else []
    own = [f"{id}.text", f"{id}.comment", f"{id}.alone"]
    own += [each["id"] for each in fields] + [each for each, _ in left_out]
    body = accounts.to_body(row)
    return {
        "id": id,
        "name": _name_account(data, row),
        "label": platform.label,
        "platform": platform.name,
        "profile": next((each["name"] for each in data.session.profiles if each["id"] == row["profile"]), ""),
        "profile_id": row["profile"],
        "status": row["status"],
        "why": _unavailable_reason(call, row),
        "attention": body.get("attention"),
        "is_chosen": bool(data.form.get(f"to.{id}")),
        "count": count,
        "has_fields": has_fields,
        "frequent": frequent,
        "rare": rare,
        "is_rare_open": any(each["value"] or each["wrong"] for each in rare),
        "left_out": left_out,
        "is_threaded": bool(count and thread_pieces.list_numbers(data.form)),
        "comments": platform.first_comment,
        "is_open": data.form.get("customize") == id
        or any(data.form.get(name) or findings.wrong.get(name) for name in own),
        "wrong": findings.wrong.get(id, ()),
        "warned": findings.warned.get(id, ()),
    }


def _name_account(data: ComposeData, row: AccountRow) -> str:
    """Return the account's name, with its id if another one there has the same name."""
    name, id = row["display_name"] or row["platform_account_id"], row["platform_account_id"]
    alike = [each for each in data.accounts if (each["platform"], each["display_name"]) == (row["platform"], name)]
    return f"{name} ({id})" if any(each["platform_account_id"] != id for each in alike) else name


def _unavailable_reason(call: RequestContext, row: AccountRow) -> str:
    """Return the reason why the account cannot publish, or ""."""
    if row["status"] == "revoked":
        return "Access expired. Reconnect this account to publish to it."
    try:
        accounts.check_enabled(call.service, platforms.platform(row["platform"]))
    except ApiError as error:
        return error.message
    return ""


def _field(form: Mapping[str, str], row: AccountRow, option: OptionField, findings: FormFindings) -> dict[str, Any]:
    """Return the template's view of an option of an account."""
    id = f"{row['id']}.option.{option.name}"
    names_board = _board_option(row) == option.name
    found = [(board.id, board.name) for board in findings.boards.get(row["id"], ()) if names_board and board.pinnable]
    value, default = form.get(id, ""), _default(row, option.name)
    known = {"": default or "None", **({value: value} if value else {}), **dict(found)}
    return {
        "id": id,
        "option": option,
        "value": value,
        "default": default,
        "choices": option.choices or (tuple(known.items()) if found else ()),
        "account": row["id"] if names_board else "",
        "is_listed": bool(found),
        "wrong": findings.wrong.get(id, ()),
    }


def _board_option(row: AccountRow) -> str:
    """Return the option that names a board, or "" if the platform has no boards."""
    platform = platforms.platform(row["platform"])
    return next(iter(platform.defaults), "") if boards.has_boards(row["platform"]) else ""


def _default(row: AccountRow, option: str) -> str:
    """Return the account's default for an option, as text."""
    platform, extra = platforms.platform(row["platform"]), json.loads(row["extra"])
    if not extra.get(platform.defaults.get(option)):
        return ""
    shown = [str(extra[name]) for name in reversed(platform.account_fields) if extra.get(name)]
    return ", ".join(shown) or str(extra[platform.defaults[option]])


def _file(call: RequestContext, name: str, row: MediaRow | None, form: Mapping[str, str]) -> dict[str, Any]:
    alt, piece = f"alt.{name}", {"piece": thread_pieces.find_number(form, name)}
    if row is None:
        kind, url = compose_form.parse_link(name) or ("image", "")
        return {"id": name, "kind": kind, "path": "", "url": url, "alt": form.get(alt, "")} | piece
    said = form[alt] if alt in form else row["alt_text"] or ""
    return media.to_view(library.to_body(call.service, row)) | {"alt": said} | piece


# --- Its buttons -----------------------------------------------------------------------------------------------------


async def submit(call: RequestContext) -> HandlerResponse:
    """POST /compose: `do=send` publishes or schedules, `do=check` and `do=live` validate."""
    given = forms.parse(call)
    if given.get("do") == "send":
        return await _send(call, given)
    if given.get("boards"):
        return await _page(call, given, await _fetch_boards(call, given))
    if given.get("do") == "request":
        return await _page(call, given, await _write_command(call, given))
    return await _page(call, given, await _check(call, given) if given.get("do") in ("check", "live") else NO_FINDINGS)


async def save_group(call: RequestContext) -> HandlerResponse:
    """POST /compose/groups: save the chosen accounts as `group_name`, or delete `ended_group`."""
    given = forms.parse(call)
    ended = given.pop("ended_group", "")
    chosen = [] if ended else compose_form.list_accounts(given)
    try:
        if not (ended or chosen):
            raise ApiError("validation_failed", "Choose the accounts of the group first.")
        await actions.perform(call.actor, account_groups.save, ended or given.get("group_name", "").strip(), chosen)
    except ApiError as error:
        wrong = {"accounts": [FieldMessage(require_form_error(error).message)]}
        return await _page(call, given, FormFindings(wrong, status=error.status))
    return await _page(call, given | {"group_name": ""})


async def _check(call: RequestContext, given: Form) -> FormFindings:
    """Return the findings of POST /v1/posts/validate for the form.

    While it is being written (`do=live`), files are not read again, and where nothing is written, or the check itself
    is refused, there are no findings, or only those of the form's fields.
    """
    is_live = given["do"] == "live"
    try:
        with await call.enter_checking():
            content = await _build_request(call, given)
            if is_live and (not content["targets"] or content.keys() <= {"targets", *TIME_FIELDS}):
                return NO_FINDINGS
            request = validation.parse_object(ValidateRequest, {**content, "deep": not is_live})
            draft = await preflight.check_request(call.service, call.scope, request, {})
        results = await preflight.validate_each(call.service, call.engine.fetched, call.scope, draft, {})
    except ApiError as error:
        refused = _refusal_findings(error, given)
        return replace(refused, words="", status=200) if is_live else refused
    for target, result in results if is_live else ():
        known = preflight.list_stored_errors(call.service, target, {})
        result["errors"] += [preflight.build_target_error(call.service, target, error) for error in known]
    found = await _place_results(call, given, results)
    chosen = {result["accountId"] for _, result in results}
    rejecting = len(chosen & found.wrong.keys())
    if is_live and not rejecting:
        return replace(found, words="No problems found so far.")
    return replace(found, words=_summary(len(chosen), rejecting, len(found.warned)))


async def _place_results(
    call: RequestContext, given: Form, results: Sequence[tuple[ResolvedTarget, ValidationResult]]
) -> FormFindings:
    """Return the errors and warnings by place, and the previews of the targets."""
    wrong, warned = compose_form.place_preflight([(target.piece, result) for target, result in results], given)
    targets = [target for target, _ in results]
    previews = await call.service.read(lambda: draft_view.build_targets(call.service, targets))
    return FormFindings(wrong, warned, previews=previews)


async def _write_command(call: RequestContext, given: Form) -> FormFindings:
    """Return the command that publishes the form over the API."""
    try:
        body = await _build_request(call, given)
    except ApiError as error:
        return _refusal_findings(error, given)
    return FormFindings(command=build_curl("POST", f"{call.service.base_url}/v1/posts", [{"apiKey": []}], body))


async def _fetch_boards(call: RequestContext, given: Form) -> FormFindings:
    """Return the current boards of an account."""
    try:
        row = await call.service.read(lambda: accounts.find(call.scope, given["boards"]))
        found = await fetch_boards(call, row)
    except ApiError as error:
        return _refusal_findings(error, given)
    return FormFindings(boards={row["id"]: found})


def _summary(accounts: int, rejecting: int, warning: int) -> str:
    if rejecting == accounts == 1:
        return "The account would reject this post. See the problems under the account."
    if rejecting:
        return f"{rejecting} of {accounts} accounts would reject this post. See the problems under each account."
    where = "the account" if accounts == 1 else f"all {accounts} accounts"
    rest = " See the warnings first." if warning else ""
    return f"Ready to publish to {where}.{rest}"


def _refusal_findings(error: ApiError, given: Form) -> FormFindings:
    if error.code == "unauthenticated":
        raise error
    if error.rule == "idempotency_key.body_mismatch":
        said = FieldMessage(
            "You already sent this form and have changed it since. The sent version is under Posts. To publish the "
            "changed version as another post, send the form again."
        )
        return FormFindings({compose_form.TOP: [said]}, status=error.status, is_sent=True)
    if error.rule == "http.if_match":
        words = "Nothing was saved: it was changed elsewhere since you opened it."
        return FormFindings(words=words, status=error.status, conflict=error.headers["ETag"])
    wrong = compose_form.place_errors(error, given)
    words = "" if given.get("boards") else "Nothing was published. Correct the marked problems and try again."
    return FormFindings(wrong, words=words, status=error.status)


class FormRows(NamedTuple):
    """Rows that a form names."""

    accounts: dict[str, AccountRow]
    media: dict[str, MediaRow]
    item: EditedItem | None


async def _read_rows(call: RequestContext, given: Form) -> FormRows:
    """Read what the form names. Raises ApiError `not_found` for an unknown draft or post."""

    def read() -> FormRows:
        named = set(compose_form.list_accounts(given))
        rows = {row["id"]: row for row in accounts.list_rows(call.scope) if row["id"] in named}
        held = library.load_all(call.scope, set(compose_form.list_media(given)))
        return FormRows(rows, held, edited_items.load(call.scope, given))

    return await call.service.read(read)


async def _build_request(call: RequestContext, given: Form, found: FormRows | None = None) -> dict[str, Any]:
    """Return the form as the body of a publish request, with what its draft keeps."""
    rows = found or await _read_rows(call, given)
    before = rows.item.content.get("scheduledAt") if rows.item else None
    request = compose_form.to_request(given, rows.accounts, rows.media, call.service.now_ms, before)
    if rows.item is None:
        return request
    return edited_content.merge(request, rows.item.content) if rows.item.kind == "draft" else request


async def _send(call: RequestContext, given: Form) -> HandlerResponse:
    """Publish the form. Raises ApiError `unauthorized` for a role that only drafts."""
    call.scope = replace(call.scope, needs=actions.PUBLISHER_ROLES)
    actions.authorize(call.scope)
    if not drafts.can_publish_directly(call.service, call.scope):
        return await _page(call, given, _refusal_findings(rule_error("draft.approval"), given))
    fingerprint = idempotency.start_fingerprint("")
    # An empty field is as good as an absent one, except a description, which replaces the stored one of the file.
    sent = [pair for pair in given.items() if pair[0] not in _UNSENT and (pair[1] or pair[0].startswith("alt."))]
    fingerprint.update(json.dumps(sorted(sent)).encode())
    call.key = idempotency.parse_key(
        call.scope, "POST", COMPOSE_PATH, _key(call, given.get("key", "")), fingerprint.hexdigest()
    )

    async def ask() -> BatchRequest:
        return validation.parse_object(BatchRequest, await _build_request(call, given))

    wait = min(WAIT_SECONDS, call.service.runtime.settings.publishing.immediate_wait)
    try:
        if given.get("draft"):
            return await _send_draft(call, given, wait)
        answer = await posts_api.publish_keyed(call, ask, wait)
    except ApiError as error:
        return await _page(call, given, _refusal_findings(error, given))
    return redirect_to_posts(call, json.loads(answer.body))


async def _send_draft(call: RequestContext, given: Form, wait: float) -> HandlerResponse:
    """Save the form to its draft and publish that; once published, lead to its posts."""
    key, call.key = call.key, None
    try:
        await call.service.read(lambda: drafts.find_open(call.scope, given["draft"]))
        saved = await _save(call, given)
        call.key = key
        answer = await drafts_api.publish_draft(call, saved["id"], wait)
    except ApiError as error:
        batch = error.platform_response if error.rule == "draft.status" else None
        if not isinstance(batch, dict) or "batchId" not in batch:
            raise
        return redirect_with_flash(call, f"/posts?batchId={batch['batchId']}", "This draft was published already.")
    return redirect_to_posts(call, json.loads(answer.body))


def redirect_to_posts(call: RequestContext, batch: Mapping[str, Any]) -> HandlerResponse:
    """Redirect to the post, or to the posts of the batch."""
    results = batch["results"]
    where = f"/posts/{results[0]['postId']}" if len(results) == 1 else f"/posts?batchId={batch['id']}"
    states = [result["status"] for result in results]
    return redirect_with_flash(call, where, _outcome(states), good=not {"failed", "rejected"} & set(states))


def _outcome(states: Sequence[str]) -> str:
    published, failed = states.count("published"), sum(state in ("failed", "rejected") for state in states)
    if "queued" in states:
        return "Post scheduled." if len(states) == 1 else f"{len(states)} posts scheduled."
    if published == len(states):
        return "Post published." if published == 1 else f"Published to all {published} accounts."
    if failed == len(states):
        return "The post was not published. See the reason below."
    if failed:
        return f"{published} of {len(states)} posts were published. See the reasons below."
    return "Publishing. This page shows the outcome."


# --- A file ----------------------------------------------------------------------------------------------------------


async def receive(call: RequestContext) -> PageUploadForm:
    """Read the form with its file, which is deleted unless it is stored."""
    forms.check_origin(call)
    return await media_api.receive_form(
        call, lambda boundary, open_file: PageUploadForm(boundary, open_file, FIELDS_MAX), lambda form: form
    )


async def upload(call: RequestContext) -> HandlerResponse:
    """POST /compose/media: store a file and show the form with it."""
    sent: PageUploadForm = call.received
    given = dict(sent.fields)
    try:
        forms.check_csrf(call, given, call.scope.csrf)
        findings, added = await _save_file(call, sent, given)
    finally:
        if sent.arriving is not None:
            sent.arriving.close()
    return await _page(call, given | added, findings)


async def _save_file(call: RequestContext, sent: PageUploadForm, given: Form) -> tuple[FormFindings, Form]:
    """Store the file and return the form with it. Repeating the request stores it once."""
    alt = compose_form.read_field(given, "new-alt")
    try:
        if sent.refused is not None or sent.arriving is None:
            raise sent.refused or rule_error("media.missing_file")
        fields = await _fields(call, alt)
        fingerprint = json.dumps([given.get("key", ""), sent.arriving.sha256, alt]).encode()
        name = hashlib.sha256(fingerprint).hexdigest()
        call.key = idempotency.parse_key(call.scope, "POST", call.request.path, name, name)
        body = json.loads((await library.upload(call.actor, sent.arriving, fields)).body)
    except ApiError as error:
        return _file_findings(error), {}
    ids = [*compose_form.list_media(given), body["id"]]
    return NO_FINDINGS, {"new-alt": ""} | {f"media.{number}": each for number, each in enumerate(ids, 1)}


async def _fields(call: RequestContext, alt: str) -> MediaFields:
    session = await call.service.read(lambda: dashboard_session.load(call.scope))
    profile = session.profile["id"] if session and session.profile else None
    given = ({"profileId": profile} if profile else {}) | ({"altText": alt} if alt else {})
    return validation.parse_object(MediaFields, given)


def _file_findings(error: ApiError) -> FormFindings:
    if error.code == "unauthenticated":
        raise error
    empty = error.rule in ("media.missing_file", "media.empty_body")
    said = FieldMessage("Choose a file first.") if empty else FieldMessage(error.message, error.remediation or "")
    return FormFindings({"file": [said]}, status=error.status)


# --- A draft, a queued post ------------------------------------------------------------------------------------------


async def save_draft(call: RequestContext) -> HandlerResponse:
    """POST /drafts: save the form as a draft, or to the `draft` that it was opened from."""
    given = forms.parse(call)
    if given.get("do") == "autosave":
        return await _autosave(call, given)
    try:
        saved = await _save(call, given)
    except ApiError as error:
        return await _page(call, given, _refusal_findings(error, given))
    has_lost_approval = given.get("was") == "approved" and saved["status"] == "draft"
    was = "It had been approved; the change ended the approval." if has_lost_approval else ""
    return redirect_with_flash(call, f"/drafts/{saved['id']}", f"Draft saved. {was}".strip())


class AutosavedDraft(TypedDict):
    """Saved draft, for the script of the composer. `seen`: its ETag."""

    id: str
    seen: str
    status: DraftStatus


async def _autosave(call: RequestContext, given: Form) -> HandlerResponse:
    """Save the form for its script, once for `save_key`; return the draft's id, ETag and state."""
    fingerprint = idempotency.start_fingerprint("")
    fingerprint.update(call.body)
    key = _key(call, given.get("save_key", ""))
    call.key = idempotency.parse_key(call.scope, "POST", DRAFTS_PATH, key, fingerprint.hexdigest())

    async def run() -> idempotency.StoredResponse:
        async with contextlib.AsyncExitStack() as files:
            return await actions.respond(await _build_save(call, given, files))

    stored = await idempotency.run_once(call.service, call.key, run)
    saved: DraftBody = json.loads(stored.body)
    state: AutosavedDraft = {
        "id": saved["id"],
        "seen": compute_tag(drafts.encode(saved)),
        "status": saved["status"],
    }
    return HandlerResponse(state)


async def _save(call: RequestContext, given: Form) -> DraftBody:
    """Save the form as a draft. Raises 412 `http.if_match` if it was changed elsewhere."""
    async with contextlib.AsyncExitStack() as files:
        return cast(DraftBody, await actions.perform_bound(await _build_save(call, given, files)))


async def _build_save(call: RequestContext, given: Form, files: contextlib.AsyncExitStack) -> actions.BoundAction:
    """Return the action that saves the form: to its draft, or as a new one."""
    found = await _read_rows(call, given)
    content = await _build_request(call, given, found)
    request = validation.parse_object(DraftRequest, content)
    checked = await drafts_api.check_content(call.actor, request, {}, files)
    if found.item is None:
        return actions.bind(call.actor, drafts.create, None, checked)
    draft = found.item.id
    if given.get("do") == "autosave":
        action = actions.bind(call.actor, drafts.autosave, draft, checked)
    else:
        action = actions.bind(call.actor, drafts.change, draft, None, checked)
    seen = given.get("replace") or given.get("seen", "")
    return require_tag(action, (seen,), lambda: drafts.encode(drafts.load_body(call.scope, draft)))


async def edit_post(call: RequestContext) -> HandlerResponse:
    """POST /posts/{id}/edit: change the content and the time of a queued post."""
    given, post = forms.parse(call) | {"post": call.path_value("post_id")}, call.path_value("post_id")
    try:
        changed = await _edit(call, given, post)
    except ApiError as error:
        if error.code in ("unauthorized", "not_found"):
            raise
        return await _page(call, given, _refusal_findings(error, given))
    return redirect_with_flash(call, f"/posts/{post}", "Post changed." if changed else "Nothing was changed.")


async def _edit(call: RequestContext, given: Form, post: str) -> bool:
    """Change the post; return whether there was something to change."""
    found = await _read_rows(call, given)
    assert found.item is not None, "the form names it"
    row = await call.service.read(lambda: accounts.find(call.scope, str(found.item and found.item.account)))
    body = edited_content.to_edit(given, found.item, row, found.media, call.service.now_ms)
    if not body:
        return False
    if body.keys() != {"scheduledAt"} and not drafts.can_publish_directly(call.service, call.scope):
        remedy = "Cancel the post, and propose a draft with the new content."
        raise rule_error("draft.approval", "You can change only the time of a scheduled post.", remediation=remedy)
    with await call.enter_checking():
        action = await edits.prepare_post(call.actor, post, validation.parse_object(PostEditRequest, body), {})
    seen = given.get("replace") or given.get("seen", "")
    await actions.perform_bound(require_tag(action, (seen,), lambda: post_log.load_detail(call.scope, post)))
    return True
