"""Import of posts: each row becomes a publish request for one target, checked as any other.

A post that already exists (same account, time, text and media, not canceled) is skipped, so a file can be imported
again after a crash or by mistake.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.domain.access.actor import Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.access.idempotency import EarlierBatchError
from socialpub.domain.organizations import name_lookup
from socialpub.domain.posts import accept, external_ids
from socialpub.domain.schemas.common import MEDIA_ID_PATTERN
from socialpub.domain.schemas.posts import BatchRequest, MediaItem
from socialpub.domain.schemas.validation import parse_object
from socialpub.platforms.contract import PublishWarning
from socialpub.store.engine import sql
from socialpub.store.queries import import_export
from socialpub.store.rows import AccountRow

INPUT_FIELDS = (
    "account",
    "accountId",
    "platform",
    "text",
    "media",
    "mediaRefs",
    "scheduledAt",
    "options",
    "firstComment",
)
IGNORED_FIELDS = frozenset(
    "id batchId externalId profileId status nextAttemptAt publishedAt platformUri platformCid url error warnings "
    "createdAt updatedAt".split()
)
"""Fields of an export that an import ignores."""
ACCOUNT_CACHE_SIZE = 1000  # cached lookups
VIDEO_SUFFIXES = (".mp4", ".m4v", ".mov", ".webm")
_MEDIA_ID = re.compile(MEDIA_ID_PATTERN)
_MEDIA_SEPARATOR = re.compile(r"[,;|](?=https?://|med_)")  # between two media without white space
InputRow = Mapping[str, Any]


@dataclass(frozen=True)
class ImportedPost:
    """Row of the file: account and publish request."""

    account: AccountRow
    request: BatchRequest

    @property
    def text(self) -> str:
        return self.request.text or ""

    @property
    def identity(self) -> tuple[str, int | None, str, tuple[str, ...]]:
        """Identity of the post, for duplicates."""
        return self.account["id"], self.request.scheduled_at, self.text, _list_sources(self.request.media or ())


def make_account_finder(who: Actor) -> Callable[[str], AccountRow]:
    """Return a cached lookup of account names in the importer's organization."""

    @functools.lru_cache(ACCOUNT_CACHE_SIZE)
    def find(name: str) -> AccountRow:
        return who.service.read(lambda: name_lookup.find_account(who.scope.organization, name)).result()

    return find


def parse_row(row: InputRow, find: Callable[[str], AccountRow], external_id: str | None = None) -> ImportedPost:
    """Parse a row of the file. Raises ApiError describing the problem."""
    values = {name: value for name, value in row.items() if value not in (None, "")}
    unknown = sorted(set(values) - set(INPUT_FIELDS) - IGNORED_FIELDS)
    if unknown:
        raise _field_error(unknown[0], f"There is no such field as {unknown[0]!r}.")
    if "threadPosition" in values:
        raise _field_error("threadPosition", "A thread cannot be imported: publish it with POST /v1/posts.")
    if "scheduledAt" not in values:
        raise _field_error("scheduledAt", "A post to import has a time at which it is published.")
    account = _find_account(values, find)
    _check_platform(values, account)
    name = {} if external_id is None else {"externalId": external_id}
    return ImportedPost(account, parse_object(BatchRequest, _build_body(values, account) | name))


def _find_account(row: InputRow, find: Callable[[str], AccountRow]) -> AccountRow:
    """Find the account by any of its ids or names; another server knows only some of them."""
    account_field = row.get("account")
    names = [row.get("accountId"), account_field] if isinstance(account_field, str) else [row.get("accountId")]
    if isinstance(account_field, Mapping):
        names += [account_field.get("id"), account_field.get("platformAccountId")]
    wanted = list(dict.fromkeys(name for name in names if isinstance(name, str)))
    if not wanted:
        raise _field_error("account", "Every line names an account: its id, or what it is called.")
    for name in wanted[:-1]:
        try:
            return find(name)
        except ApiError as error:
            if error.code != "not_found":
                raise
    return find(wanted[-1])


def _check_platform(row: InputRow, account: AccountRow) -> None:
    """Raise ApiError if the row names another platform than that of its account."""
    platform = platforms.platform(account["platform"])
    names = [name.lower() for name in (platform.name, platform.label, *platform.aliases)]
    if "platform" in row and str(row["platform"]).strip().lower() not in names:
        raise _field_error("platform", f"The account is one of {platform.label}, and the row names another platform.")


def _build_body(row: InputRow, account: AccountRow) -> dict[str, Any]:
    target: dict[str, Any] = {"accountId": account["id"]}
    if options := row.get("options"):
        tag = {"platform": account["platform"]}
        target["options"] = {**tag, **options} if isinstance(options, Mapping) else options
    comment = {"firstComment": row["firstComment"]} if "firstComment" in row else {}
    media = row.get("media", row.get("mediaRefs"))
    if isinstance(media, str):
        media = _split_media(media)
    pictures = {"media": media} if media else {}
    text = {"text": row["text"]} if "text" in row else {}
    return {"targets": [target], "scheduledAt": row["scheduledAt"], **text, **pictures, **comment}


def _split_media(cell: str) -> list[Any]:
    """Split a cell of URLs and media ids."""
    parts = [part.strip(",;|") for word in cell.split() for part in _MEDIA_SEPARATOR.split(word)]
    return [_parse_media(part) for part in parts if part]


def _parse_media(part: str) -> Any:
    if _MEDIA_ID.fullmatch(part):
        return part
    if not part.lower().startswith(("http://", "https://")):
        raise _field_error("media", f"{part!r} is neither an address nor the id of an uploaded file.")
    path = part.partition("?")[0].partition("#")[0].lower()
    kind = "document" if path.endswith(".pdf") else "video" if path.endswith(VIDEO_SUFFIXES) else "image"
    return {"kind": kind, "url": part}


def is_existing(scope: Scope, wanted: ImportedPost) -> bool:
    """Return whether the post or its external id exists, not canceled. Call within a read."""
    name = wanted.request.external_id
    if name is not None and external_ids.find_batch(scope, name) is not None:
        return True
    account, organization = wanted.account["id"], wanted.account["organization"]
    identity = (account, wanted.request.scheduled_at, wanted.text, organization)
    sources = _list_sources(wanted.request.media or ())
    return any(
        _list_sources(sql.load_json(media or "[]")) == sources
        for (media,) in sql.fetch_all(import_export.FIND_SAME_POSTS, identity)
    )


def _list_sources(media: Sequence[Any]) -> tuple[str, ...]:
    """List the sources of media, as a request or row names them."""
    return tuple(_get_source(item) for item in media)


def _get_source(item: Any) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, MediaItem):
        return str(item.media_id or item.url)
    return str(item.get("mediaId") or item.get("url"))


async def check(who: Actor, wanted: ImportedPost) -> Sequence[PublishWarning]:
    """Run all checks of an acceptance; return the warnings. Raises ApiError."""
    try:
        plan = await accept.prepare(who, wanted.request, None, {})
    except EarlierBatchError:  # a request with its external id was faster
        return []
    return [note for target in plan.targets for note in target.warnings]


async def accept_post(who: Actor, wanted: ImportedPost) -> bool:
    """Accept the post; return False if a request with its external id was faster.

    Raises ApiError, with nothing written, if refused.
    """
    try:
        await accept.commit(await accept.prepare(who, wanted.request, None, {}))
    except EarlierBatchError:
        return False
    return True


def list_problems(error: ApiError, account: AccountRow | None) -> list[dict[str, Any]]:
    """List the problems of a row: `{code, rule, message, remediation}`."""
    found = error.platform_response if error.code == "preflight_failed" else None
    if not isinstance(found, list):
        return [{"code": error.code, "rule": error.rule, "message": error.message, "remediation": error.remediation}]
    label = platforms.platform(account["platform"]).label if account else ""
    return [
        {
            "code": error.code,
            "rule": problem["rule"],
            "message": f"{label}: {problem['message']}",
            "remediation": problem["remediation"],
        }
        for problem in found
    ]


def _field_error(field: str, message: str) -> ApiError:
    return ApiError("validation_failed", message, rule=field)
