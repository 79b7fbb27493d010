"""Accounts, pieces and files of a form, for its template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.accounts import accounts, boards
from socialpub.domain.media import library
from socialpub.domain.posts import preflight
from socialpub.domain.schemas.posts import TextCount
from socialpub.platforms.contract import DraftMedia, MediaKind
from socialpub.platforms.kit.options import OptionField, list_fields
from socialpub.store.rows import AccountRow, MediaRow
from socialpub.web.dashboard import media
from socialpub.web.dashboard.compose.form_data import ComposeData
from socialpub.web.dashboard.compose.form_findings import FormFindings
from socialpub.web.dashboard.parts import compose_form, thread_pieces
from socialpub.web.dashboard.parts.draft_view import label_default
from socialpub.web.http.handler import RequestContext


async def count_texts(call: RequestContext, data: ComposeData) -> dict[str, TextCount]:
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


async def view_pieces(call: RequestContext, data: ComposeData) -> list[dict[str, Any]]:
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


def view_account(
    call: RequestContext, data: ComposeData, row: AccountRow, count: TextCount | None, findings: FormFindings
) -> dict[str, Any]:
    """Return the template's view of an account, with its own fields if it has some."""
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
        can_reconnect = actions.can_manage(call.scope)
        remedy = "Reconnect this account to publish to it." if can_reconnect else "An owner or admin can reconnect it."
        return f"Access expired. {remedy}"
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
    value, default = form.get(id, ""), label_default(row, option.name)
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


def view_file(call: RequestContext, name: str, row: MediaRow | None, form: Mapping[str, str]) -> dict[str, Any]:
    """Return the template's view of a file. `row`: None for a file elsewhere."""
    alt, piece = f"alt.{name}", {"piece": thread_pieces.find_number(form, name)}
    if row is None:
        kind, url = compose_form.parse_link(name) or ("image", "")
        return {"id": name, "kind": kind, "path": "", "url": url, "alt": form.get(alt, "")} | piece
    said = form[alt] if alt in form else row["alt_text"] or ""
    return media.to_view(library.to_body(call.service, row)) | {"alt": said} | piece
