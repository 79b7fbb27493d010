"""A saved draft or queued post in the form of a post: conversion without loss.

What the API can say and the form cannot (an account's own thread, options that are lists of objects, files of one
account in another order) is kept: it is taken over from the stored content when the form is saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from socialpub import platforms
from socialpub.platforms.kit.options import TAG, list_fields
from socialpub.store.rows import AccountRow, MediaRow
from socialpub.web.dashboard.parts import compose_form, thread_pieces
from socialpub.web.dashboard.parts.compose_form import FieldMessage, FieldMessages, RequestedMedia, StoredContent

KEPT_FIELDS = ("profileId", "onDuplicate", "externalId")
KEPT_TARGET_FIELDS = ("platform",)
"""Fields of a content, and of its targets, that the form does not have."""


@dataclass(frozen=True)
class EditedItem:
    """Draft or queued post that the form changes. `tag`: its ETag, as the form was filled.

    `content`: of a draft as stored, or of a post (`text`, `mediaRefs`, `options`, `scheduledAt`).
    """

    kind: Literal["draft", "post"]
    id: str
    tag: str
    status: str
    content: StoredContent
    account: str = ""  # of a post
    is_waiting: bool = False  # a piece of a thread, which moves with its first post
    sharing: int = 0  # other queued posts of its batch that have the same text and media


# --- Draft to form ---------------------------------------------------------------------------------------------------


def read_draft(content: StoredContent, zone: str) -> tuple[dict[str, str], FieldMessages]:
    """Return the form of a draft's content, and notes on what it keeps but does not show."""
    form = {"text": content.get("text", ""), "when": "slot" if "slot" in content else "now"}
    form |= compose_form.write_due(content["scheduledAt"], zone) if "scheduledAt" in content else {}
    shared = _list_shared(content)
    form |= _write_thread(_find_thread(content), shared)
    notes = {account: list(_read_target(form, content, target, shared)) for account, target in _by_account(content)}
    top = []
    if "thread" in content and not _find_thread(content):
        words = (
            f"Its thread of {len(content['thread']) + 1} posts has a file twice. It is kept unless you add posts here."
        )
        top.append(FieldMessage(words))
    if any("accountId" not in target for target in content.get("targets", ())):
        top.append(FieldMessage("A target that names a platform and no account is kept."))
    return form, {compose_form.TOP: top} | notes


def _find_thread(content: StoredContent) -> Sequence[StoredContent]:
    """Return the pieces of the form: the content's, or else the one thread of its targets.

    Nothing where a file is in two posts, which the form cannot say.
    """
    targets = content.get("targets", ())
    own = [target["thread"] for target in targets if "thread" in target]
    is_common = own and all(each == own[0] for each in own) and all("accountId" in target for target in targets)
    thread: Sequence[StoredContent] = content.get("thread") or (own[0] if is_common else ())
    names = [compose_form.name_media(item) for piece in thread for item in piece.get("media", ())]
    return thread if len({*names, *_list_shared(content)}) == len(names) + len(_list_shared(content)) else ()


def _has_own_thread(content: StoredContent, target: StoredContent) -> bool:
    return "thread" in target and target["thread"] != _find_thread(content)


def _write_thread(thread: Sequence[StoredContent], shared: Mapping[str, RequestedMedia]) -> dict[str, str]:
    """Return the fields of the form for pieces and files; `shared`: those of the first post."""
    items, form = list(shared.values()), {}
    for number, piece in enumerate(thread, 1):
        form[thread_pieces.name_piece(number)] = piece["text"]
        form |= {f"in.{compose_form.name_media(item)}": str(number) for item in piece.get("media", ())}
        items += piece.get("media", ())
    return form | compose_form.write_media(items)


def write_copied_thread(media: Sequence[RequestedMedia], thread: Sequence[StoredContent]) -> dict[str, str]:
    """Return the fields of a copied post's pieces and files; `media`: its own.

    Empty if a file is in two posts.
    """
    content: StoredContent = {"media": media, "thread": thread}
    return _write_thread(found, _list_shared(content)) if (found := _find_thread(content)) else {}


def _by_account(content: StoredContent) -> Iterator[tuple[str, StoredContent]]:
    for target in content.get("targets", ()):
        if "accountId" in target:
            yield target["accountId"], target


def _read_target(
    form: dict[str, str], content: StoredContent, target: StoredContent, shared: Mapping[str, RequestedMedia]
) -> Iterator[FieldMessage]:
    """Add a target's fields to the form. Yield notes on what is kept."""
    account, options = target["accountId"], target.get("options", {})
    form[f"to.{account}"] = "yes"
    form |= {f"{account}.text": target["text"]} if target.get("text") else {}
    if comment := target.get("firstComment") or content.get("firstComment"):
        form[f"{account}.comment"] = comment["text"]
    form |= write_options(account, options)
    if _has_own_thread(content, target):
        yield FieldMessage("This account has another thread. It is kept.")
    elif "thread" not in content and "thread" not in target and _find_thread(content):
        form[f"{account}.alone"] = "yes"
    for name in _list_unshown(options):
        yield FieldMessage(f"Only the API sets `{name}`. It is kept.")
    if _has_own_media(content, target):
        yield FieldMessage("This account has other files. They are kept.")
    else:
        names = [compose_form.name_media(item) for item in target.get("media", content.get("media", ()))]
        form |= {compose_form.name_exclusion_field(account, name): "yes" for name in shared if name not in names}


def write_options(account: str, options: StoredContent) -> dict[str, str]:
    """Return the fields of the form for the options of an account's target."""
    if TAG not in options:
        return {}
    fields = list_fields(platforms.platform(options[TAG]).options)
    return {
        f"{account}.option.{field.name}": field.text_of(options[field.name])
        for field in fields
        if field.name in options
    }


def _list_unshown(options: StoredContent) -> list[str]:
    """List the options that the form does not have."""
    if TAG not in options:
        return []
    shown = {field.name for field in list_fields(platforms.platform(options[TAG]).options)}
    return [name for name in options if name != TAG and name not in shown]


def _list_shared(content: StoredContent) -> dict[str, RequestedMedia]:
    """List the files that the form shows, by name: shared ones, and those that fit."""
    shared = {compose_form.name_media(item): item for item in content.get("media", ())}
    for target in content.get("targets", ()):
        if not _has_own_media(content, target):
            shared |= {compose_form.name_media(item): item for item in target.get("media", ())}
    return shared


def _has_own_media(content: StoredContent, target: StoredContent) -> bool:
    """Return whether the target's files are no selection of the shared ones in their order."""
    if "media" not in target:
        return False
    rest = iter(content.get("media", ()))
    return not all(any(item == each for each in rest) for item in target["media"])


# --- Form to draft ---------------------------------------------------------------------------------------------------


def merge(request: dict[str, Any], content: StoredContent) -> dict[str, Any]:
    """Return the form's request with what the stored content has and the form does not show."""
    names = KEPT_FIELDS if _find_thread(content) else (*KEPT_FIELDS, "thread")
    kept = {name: content[name] for name in names if name in content and name not in request}
    stored = dict(_by_account(content))
    targets = [
        _merge_target(target, content, stored[target["accountId"]]) if target["accountId"] in stored else target
        for target in request["targets"]
    ]
    targets += [target for target in content.get("targets", ()) if "accountId" not in target]
    merged = {**kept, **request, "targets": targets}
    if not targets and "targets" not in content:
        del merged["targets"]
    return merged


def _merge_target(target: dict[str, Any], content: StoredContent, stored: StoredContent) -> dict[str, Any]:
    kept = {name: stored[name] for name in KEPT_TARGET_FIELDS if name in stored}
    kept |= {"text": ""} if stored.get("text") == "" else {}
    merged = {**kept, **target}
    options = {name: stored["options"][name] for name in _list_unshown(stored.get("options", {}))}
    if options:
        merged["options"] = {TAG: stored["options"][TAG], **options, **merged.get("options", {})}
    elif "options" in stored and "options" not in merged:
        merged["options"] = {TAG: stored["options"][TAG]}
    if _has_own_media(content, stored):
        merged["media"] = stored["media"]
    if _has_own_thread(content, stored):
        merged["thread"] = stored["thread"]
    return merged


# --- Post to form and back -------------------------------------------------------------------------------------------


def read_post(item: EditedItem, zone: str) -> tuple[dict[str, str], FieldMessages]:
    """Return the form of a queued post, and notes on what it keeps but does not show."""
    content = item.content
    form, _ = compose_form.from_post(content, content["options"])
    form |= compose_form.write_due(content["scheduledAt"], zone)
    notes = [
        FieldMessage(f"Only the API sets `{name}`. It is kept.")
        for name in _list_unshown({**content["options"], TAG: content["platform"]})
    ]
    return form, {item.account: notes}


def to_edit(
    form: Mapping[str, str], item: EditedItem, row: AccountRow, held: Mapping[str, MediaRow], now_ms: int
) -> dict[str, Any]:
    """Return the body of an edit: what the form changes of the post, {} for nothing.

    Raises an ApiError for an invalid time.
    """
    content, edit = item.content, dict[str, Any]()
    text = compose_form.read_field(form, "text")
    edit |= {"text": text} if text != content["text"] else {}
    media = list(compose_form.build_items(form, held).values())
    if _describe_media(media, held) != _describe_media(content["mediaRefs"], held):
        edit["media"] = media
    edit |= _change_options(form, item, row)
    if not item.is_waiting:
        due = compose_form.parse_due(form, now_ms, content["scheduledAt"])
        edit |= {} if due == content["scheduledAt"] else {"scheduledAt": due}
    return edit


def _describe_media(items: Sequence[RequestedMedia], held: Mapping[str, MediaRow]) -> list[tuple[str, str]]:
    """Return name and alt text of each item, as it is published."""
    return [(compose_form.name_media(item), _find_alt(item, held)) for item in items]


def _find_alt(item: RequestedMedia, held: Mapping[str, MediaRow]) -> str:
    if isinstance(item, dict) and "altText" in item:
        return item["altText"]
    row = held.get(compose_form.name_media(item))
    return (row["alt_text"] or "") if row else ""


def _change_options(form: Mapping[str, str], item: EditedItem, row: AccountRow) -> dict[str, Any]:
    """Return the new options, if the form changes one; those that it does not show stay."""
    stored = {**item.content["options"], TAG: row["platform"]}
    before = {name: text for name, text in write_options(row["id"], stored).items() if text}
    given = compose_form.read_options(form, row["id"], row["platform"])
    after = {name: text for name, text in write_options(row["id"], {**given, TAG: row["platform"]}).items() if text}
    if before == after:
        return {}
    return {"options": {TAG: row["platform"], **{name: stored[name] for name in _list_unshown(stored)}, **given}}
