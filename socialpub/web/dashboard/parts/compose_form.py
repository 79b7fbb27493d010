"""The form of a post: conversion to and from a publish request, placing of errors.

A place is a field's name, an account's id, or one of the constants below.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.base.runtime import DAY_MS, format_iso
from socialpub.domain.identity import dashboard_session
from socialpub.domain.schemas.posts import MEDIA_MAX
from socialpub.platforms.contract import MediaKind
from socialpub.platforms.kit.options import list_fields
from socialpub.platforms.kit.text import normalize_line_feeds
from socialpub.store.rows import AccountRow, MediaRow
from socialpub.web.dashboard.parts import error_texts, thread_pieces
from socialpub.web.html import time_format

RequestedMedia = str | dict[str, str]
StoredContent = Mapping[str, Any]
"""A media item as the API takes it, and content as the API shows it."""
TOP, ACCOUNTS, TEXT, MEDIA, THREAD, WHEN = "", "accounts", "text", "media", "thread", "when"
FOLDS = ("first", "second")
"""Values of the field `fold`, for a time that the clocks show twice."""
SCHEDULE_MAX_MS = 5 * 366 * DAY_MS
_LINKED = re.compile(r"(image|video|document):(https?://.+)")
_NUMBERED = re.compile(r"media\.([0-9]{1,3})", re.ASCII)
RULE_PLACES = {
    "targets.required": ACCOUNTS,
    "targets.max": ACCOUNTS,
    "mode_conflict": WHEN,
    "scheduledAt.future": WHEN,
    "scheduledAt.no_first_comment": WHEN,
    "scheduledAt.no_bluesky_reply": WHEN,
    "slots.none": WHEN,
    "slots.profile": WHEN,
    "text": TEXT,
    "media": MEDIA,
}
"""Places of the API's rules in the form, where they are not at the top."""


@dataclass(frozen=True)
class FieldMessage:
    """A message of preflight or the API for one place of the form."""

    message: str
    remedy: str = ""
    rule: str = ""


FieldMessages = Mapping[str, Sequence[FieldMessage]]


# --- Fields ----------------------------------------------------------------------------------------------------------


def list_accounts(form: Mapping[str, str]) -> list[str]:
    """Return the ids of the checked accounts."""
    return [name.removeprefix("to.") for name, value in form.items() if name.startswith("to.") and value]


def list_media(form: Mapping[str, str]) -> list[str]:
    """Return the media in order: the form's, less the removed one, then the picked ones.

    Each is an id, or for a file elsewhere its kind and URL (`parse_link`).
    """
    numbered = sorted((int(match[1]), form[name]) for name in form if (match := _NUMBERED.fullmatch(name)))
    picked = [name.removeprefix("pick.") for name, value in form.items() if name.startswith("pick.") and value]
    named = list(dict.fromkeys([*(value for _, value in numbered if value), *picked]))
    remaining = [each for each in named if each != form.get("remove")][: MEDIA_MAX + 1]
    return _move_earlier(remaining, form.get("earlier", ""))


def _move_earlier(ids: list[str], earlier: str) -> list[str]:
    """Return the ids with one of them moved one place to the front."""
    if earlier not in ids[1:]:
        return ids
    index = ids.index(earlier)
    return [*ids[: index - 1], earlier, ids[index - 1], *ids[index + 1 :]]


def parse_link(media: str) -> tuple[MediaKind, str] | None:
    """Return kind and URL of a file elsewhere (`image:https://…`), or None for an id."""
    match = _LINKED.fullmatch(media)
    return (cast(MediaKind, match[1]), match[2]) if match else None


def name_media(item: RequestedMedia) -> str:
    """Return the form's name of a media item: its id, or its kind and URL."""
    if isinstance(item, str):
        return item
    return item["mediaId"] if "mediaId" in item else f"{item['kind']}:{item['url']}"


def read_field(form: Mapping[str, str], name: str) -> str:
    """Return a field's text as the API would read it."""
    return normalize_line_feeds(form.get(name, ""))


# --- Form to request -------------------------------------------------------------------------------------------------


def to_request(
    form: Mapping[str, str],
    accounts: Mapping[str, AccountRow],
    held: Mapping[str, MediaRow],
    now_ms: int,
    stored: str | None = None,
) -> dict[str, Any]:
    """Return the body of a publish request. `stored`: the time before the form.

    Raises an ApiError for an invalid time or one too far away.
    """
    text, items = read_field(form, "text"), build_items(form, held)
    first = {each: item for each, item in items.items() if not thread_pieces.find_number(form, each)}
    texts = {number: read_field(form, thread_pieces.name_piece(number)) for number in thread_pieces.list_numbers(form)}
    thread = thread_pieces.build_thread(form, texts, items)
    targets = [_target(form, each, accounts.get(each), first) for each in list_accounts(form)]
    given: dict[str, Any] = {"targets": targets}
    given |= {"text": text} if text else {}
    given |= {"media": list(first.values())} if first else {}
    if not any(is_alone(form, target["accountId"]) for target in targets):
        given |= {"thread": thread} if thread else {}
    elif thread:
        given["targets"] = [
            target if is_alone(form, target["accountId"]) else target | {"thread": thread} for target in targets
        ]
    return given | _time(form, accounts, now_ms, stored)


def is_alone(form: Mapping[str, str], account: str) -> bool:
    """Return whether an account gets the first post of the thread alone."""
    return bool(form.get(f"{account}.alone"))


def build_items(form: Mapping[str, str], held: Mapping[str, MediaRow]) -> dict[str, RequestedMedia]:
    """Return the media items of the form by their names, in order."""
    return {each: _item(form, each, held) for each in list_media(form)}


def _time(
    form: Mapping[str, str], accounts: Mapping[str, AccountRow], now_ms: int, stored: str | None
) -> dict[str, Any]:
    """Return the fields of a request that say when."""
    if form.get("when") == "later":
        return {"scheduledAt": parse_due(form, now_ms, stored)}
    if form.get("when") != "slot":
        return {}
    profiles = {row["profile"] for row in accounts.values()}
    return {"slot": "next"} | ({"profileId": profiles.pop()} if len(profiles) == 1 else {})


def _item(form: Mapping[str, str], media: str, held: Mapping[str, MediaRow]) -> RequestedMedia:
    """Return a media item. An unknown id is left for the API to reject."""
    row, alt, link = held.get(media), f"alt.{media}", parse_link(media)
    if link:
        words = read_field(form, alt)
        return {"kind": link[0], "url": link[1]} | ({"altText": words} if words else {})
    if row is None or alt not in form or read_field(form, alt) == (row["alt_text"] or ""):
        return media
    return {"kind": row["kind"], "mediaId": media, "altText": read_field(form, alt)}


def name_exclusion_field(account: str, media: str) -> str:
    """Return the name of the checkbox that excludes a file for an account."""
    return f"{account}.without.{media}"


def _target(
    form: Mapping[str, str], account: str, row: AccountRow | None, items: Mapping[str, RequestedMedia]
) -> dict[str, Any]:
    target: dict[str, Any] = {"accountId": account}
    if row is None:
        return target
    text, comment = read_field(form, f"{account}.text"), read_field(form, f"{account}.comment")
    options = read_options(form, account, row["platform"])
    target |= {"text": text} if text else {}
    target |= {"firstComment": {"text": comment}} if comment else {}
    included = [item for media, item in items.items() if not form.get(name_exclusion_field(account, media))]
    target |= {"media": included} if len(included) < len(items) else {}
    return target | ({"options": {"platform": row["platform"], **options}} if options else {})


def read_options(form: Mapping[str, str], account: str, platform: str) -> dict[str, Any]:
    """Return the options of an account's target, as the API takes them."""
    return {
        field.name: field.value_of(given)
        for field in list_fields(platforms.platform(platform).options)
        if (given := form.get(f"{account}.option.{field.name}", "").strip())
    }


def parse_due(form: Mapping[str, str], now_ms: int, stored: str | None = None) -> str:
    """Return the form's time as the API writes it: the stored one if it is in that minute.

    Raises an ApiError for an invalid time, one that the clocks skip, or, until `fold` says which, one that they repeat.
    """
    zone = dashboard_session.find_zone(form.get("in_zone")) or dashboard_session.UTC
    day, clock = form.get("day", ""), form.get("clock", "")
    try:
        instants = time_format.list_instants(day, clock, zone)
    except (ValueError, OverflowError):
        raise _time_error("Choose a day and a time.") from None
    if not instants:
        raise _time_error(f"There is no {clock} on this day: the clocks in {zone} skip it. Choose another time.")
    if len(instants) > 1 and form.get("fold") not in FOLDS:
        raise _time_error(f"The clocks in {zone} show {clock} twice on this day. Choose which one.")
    at = instants[FOLDS.index(form["fold"])] if len(instants) > 1 else instants[0]
    if stored is not None and stored[:16] == str(format_iso(at))[:16]:
        return stored
    if at > now_ms + SCHEDULE_MAX_MS:
        raise _time_error("This is more than five years away. Check the year.")
    return str(format_iso(at))


def list_folds(form: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the two times of a repeated clock as values of `fold` with words; else nothing."""
    zone = dashboard_session.find_zone(form.get("in_zone")) or dashboard_session.UTC
    try:
        instants = time_format.list_instants(form.get("day", ""), form.get("clock", ""), zone)
    except (ValueError, OverflowError):
        return []
    if form.get("when") != "later" or len(instants) < 2:
        return []
    return [(fold, time_format.format_instant(at, zone)) for fold, at in zip(FOLDS, instants, strict=True)]


def write_due(instant: str, zone: str) -> dict[str, str]:
    """Return the fields of the form for a time, on a zone's clocks."""
    local = time_format.to_local(instant, zone)
    return {"when": "later", "in_zone": zone, "fold": FOLDS[local.fold]} | time_format.to_fields(instant, zone)


def _time_error(message: str) -> ApiError:
    return ApiError("validation_failed", message, rule="scheduledAt", remediation="")


# --- Post to form ----------------------------------------------------------------------------------------------------


def from_post(post: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[dict[str, str], FieldMessages]:
    """Return the form that copies a post, and messages for what could not be copied."""
    account = post["accountId"]
    form = {"text": post["text"], f"to.{account}": "yes"}
    fields = {field.name: field for field in list_fields(platforms.platform(post["platform"]).options)}
    for name in options.keys() & fields.keys():
        form[f"{account}.option.{name}"] = fields[name].text_of(options[name])
    if post["firstComment"]:
        form[f"{account}.comment"] = post["firstComment"]["text"]
    form |= write_media(post["mediaRefs"])
    problems = {}
    if lost := sorted(options.keys() - fields.keys()):
        problems[account] = [FieldMessage(f"Only the API takes `{name}`, so it is not copied.") for name in lost]
    return form, problems


def write_media(items: Sequence[RequestedMedia]) -> dict[str, str]:
    """Return the fields of the form for media items, in order."""
    form = {}
    for number, item in enumerate(items, 1):
        media = form[f"media.{number}"] = name_media(item)
        form |= {f"alt.{media}": item["altText"]} if isinstance(item, dict) and "altText" in item else {}
    return form


# --- Errors ----------------------------------------------------------------------------------------------------------


def place_errors(error: ApiError, form: Mapping[str, str]) -> FieldMessages:
    """Return the messages of an API error by place."""
    found: defaultdict[str, list[FieldMessage]] = defaultdict(list)
    for place, message in _locate_errors(error, form):
        _add_once(found[place], message)
    return found


def _add_once(messages: list[FieldMessage], message: FieldMessage) -> None:
    if message not in messages:
        messages.append(message)


def _locate_errors(error: ApiError, form: Mapping[str, str]) -> Iterator[tuple[str, FieldMessage]]:
    issues = error.platform_response if isinstance(error.platform_response, list) else []
    if error.code == "preflight_failed" and issues:
        for each in issues:
            yield from place_issue(form, each, each.get("threadPosition"))
    elif words := error_texts.find_words(error.rule):
        yield RULE_PLACES.get(error.rule or "", TOP), FieldMessage(words)
    elif issues and all("path" in each for each in issues):
        targets = list_accounts(form)
        yield from ((_locate_path(each["path"], targets), FieldMessage(each["message"])) for each in issues)
    else:
        where = {"media": MEDIA, "scheduledAt": WHEN}.get((error.rule or "").partition(".")[0], TOP)
        yield where, FieldMessage(error.message, error.remediation or "")


def place_issue(
    form: Mapping[str, str], issue: Mapping[str, Any], piece: int | None
) -> Iterator[tuple[str, FieldMessage]]:
    """Yield the message of a rule at its account, and of a text's rule also at the text."""
    account, platform = issue["accountId"], issue["platform"]
    message, remedy, rule = issue["message"], issue.get("remediation") or "", issue.get("rule") or ""
    if rule == f"{platform}.thread.unsupported":
        remedy = "Choose “Only the first post of the thread” under “Customize” of this account."
    yield account, FieldMessage(f"Post {piece + 1}: {message}" if piece else message, remedy, rule)
    said = FieldMessage(f"{platforms.platform(platform).label}: {message}")
    if piece:
        yield thread_pieces.name_piece(piece), said
    elif rule.startswith(f"{platform}.text."):
        own = f"{account}.text"
        yield (own, FieldMessage(message)) if read_field(form, own) else (TEXT, said)


def _locate_path(path: Sequence[str | int], targets: Sequence[str]) -> str:
    """Return the place of an error path in the request."""
    match path:
        case ["targets", int(number), *rest] if number < len(targets):
            return _locate_in_target(targets[number], rest)
        case ["thread", *rest]:
            return _locate_in_thread(rest)
        case ["scheduledAt", *_]:
            return WHEN
        case ["media" | "text" as place, *_]:
            return str(place)
    return TOP


def _locate_in_target(account: str, rest: Sequence[str | int]) -> str:
    match rest:
        case ["options", str(name), *_]:
            return f"{account}.option.{name}"
        case ["firstComment", *_]:
            return f"{account}.comment"
        case ["text", *_]:
            return f"{account}.text"
        case ["thread", *inside]:
            return _locate_in_thread(inside)
    return account


def _locate_in_thread(rest: Sequence[str | int]) -> str:
    return thread_pieces.name_piece(rest[0] + 1) if rest and isinstance(rest[0], int) else THREAD


def place_preflight(
    results: Sequence[tuple[int | None, Mapping[str, Any]]], form: Mapping[str, str]
) -> tuple[FieldMessages, FieldMessages]:
    """Return the errors and the warnings of preflight by place.

    `results`: of each target and each piece of its thread, with the number of the piece.
    """
    errors: defaultdict[str, list[FieldMessage]] = defaultdict(list)
    warnings: defaultdict[str, list[FieldMessage]] = defaultdict(list)
    for piece, result in results:
        account, platform = result["accountId"], result["platform"]
        for error in result["errors"]:
            for place, message in place_issue(form, {**error, "accountId": account, "platform": platform}, piece):
                _add_once(errors[place], message)
        for note in result["warnings"]:
            warnings[account].append(FieldMessage(f"Post {piece + 1}: {note['message']}" if piece else note["message"]))
    return errors, warnings
