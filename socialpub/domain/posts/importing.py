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
from socialpub.domain.organizations import name_lookup
from socialpub.domain.posts import accept
from socialpub.domain.shapes.common import MEDIA_ID_PATTERN
from socialpub.domain.shapes.issues import parse_object
from socialpub.domain.shapes.posts import MediaItem, PublishRequest
from socialpub.platforms.contract import PublishWarning
from socialpub.store.engine import sql
from socialpub.store.queries import import_export
from socialpub.store.rows import AccountRow

GIVEN = ("account", "accountId", "platform", "text", "media", "mediaRefs", "scheduledAt", "options", "firstComment")
RESULTS = frozenset(
    "id batchId profileId status nextAttemptAt publishedAt platformUri platformCid url error warnings createdAt "
    "updatedAt".split()
)
"""Fields of an export that an import ignores."""
ACCOUNTS_KEPT = 1000  # cached lookups
VIDEO_SUFFIXES = (".mp4", ".m4v", ".mov", ".webm")
_MEDIA_ID = re.compile(MEDIA_ID_PATTERN)
_JOINED = re.compile(r"[,;|](?=https?://|med_)")  # between two media without white space
Given = Mapping[str, Any]


@dataclass(frozen=True)
class Wanted:
    """Row of the file: account and publish request."""

    account: AccountRow
    request: PublishRequest

    @property
    def text(self) -> str:
        return self.request.text or ""

    @property
    def same(self) -> tuple[str, int | None, str, tuple[str, ...]]:
        """Identity of the post, for duplicates."""
        return self.account["id"], self.request.scheduled_at, self.text, _sources(self.request.media or ())


def finder(who: Actor) -> Callable[[str], AccountRow]:
    """Return a cached lookup of account names in the importer's organization."""

    @functools.lru_cache(ACCOUNTS_KEPT)
    def find(name: str) -> AccountRow:
        return who.service.read(lambda: name_lookup.find_account(who.scope.organization, name)).result()

    return find


def read(given: Given, find: Callable[[str], AccountRow]) -> Wanted:
    """Parse a row of the file. Raises ApiError describing the problem."""
    there = {name: value for name, value in given.items() if value not in (None, "")}
    unknown = sorted(set(there) - set(GIVEN) - RESULTS)
    if unknown:
        raise _wrong(unknown[0], f"There is no such field as {ascii(unknown[0])}.")
    if "scheduledAt" not in there:
        raise _wrong("scheduledAt", "A post to import has a time at which it is published.")
    account = _account(there, find)
    return Wanted(account, parse_object(PublishRequest, _body(there, account)))


def _account(given: Given, find: Callable[[str], AccountRow]) -> AccountRow:
    """Find the account by any of its ids or names; another server knows only some of them."""
    told = given.get("account")
    names = [given.get("accountId"), told] if isinstance(told, str) else [given.get("accountId")]
    if isinstance(told, Mapping):
        names += [told.get("id"), told.get("platformAccountId")]
    wanted = list(dict.fromkeys(name for name in names if isinstance(name, str)))
    if not wanted:
        raise _wrong("account", "Every line names an account: its id, or what it is called.")
    for name in wanted[:-1]:
        try:
            return find(name)
        except ApiError as error:
            if error.code != "not_found":
                raise
    return find(wanted[-1])


def _body(given: Given, account: AccountRow) -> dict[str, Any]:
    target: dict[str, Any] = {"accountId": account["id"]}
    if options := given.get("options"):
        tag = {"platform": account["platform"]}
        target["options"] = {**tag, **options} if isinstance(options, Mapping) else options
    comment = {"firstComment": given["firstComment"]} if "firstComment" in given else {}
    media = given.get("media", given.get("mediaRefs"))
    if isinstance(media, str):
        media = _listed(media)
    pictures = {"media": media} if media else {}
    text = {"text": given["text"]} if "text" in given else {}
    return {"targets": [target], "scheduledAt": given["scheduledAt"], **text, **pictures, **comment}


def _listed(cell: str) -> list[Any]:
    """Split a cell of URLs and media ids."""
    parts = [part.strip(",;|") for word in cell.split() for part in _JOINED.split(word)]
    return [_medium(part) for part in parts if part]


def _medium(part: str) -> Any:
    if _MEDIA_ID.fullmatch(part):
        return part
    if not part.lower().startswith(("http://", "https://")):
        raise _wrong("media", f"{ascii(part)} is neither an address nor the id of an uploaded file.")
    path = part.partition("?")[0].partition("#")[0].lower()
    return {"kind": "video" if path.endswith(VIDEO_SUFFIXES) else "image", "url": part}


def is_there(wanted: Wanted) -> bool:
    """Return whether the post already exists and is not canceled. Call within a read."""
    account, organization = wanted.account["id"], wanted.account["organization"]
    same = (account, wanted.request.scheduled_at, wanted.text, organization)
    sources = _sources(wanted.request.media or ())
    return any(
        _sources(sql.load_json(media or "[]")) == sources
        for (media,) in sql.fetch_all(import_export.FIND_SAME_POSTS, same)
    )


def _sources(media: Sequence[Any]) -> tuple[str, ...]:
    """List the sources of media, as a request or row names them."""
    return tuple(_source(item) for item in media)


def _source(item: Any) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, MediaItem):
        return str(item.media_id or item.url)
    return str(item.get("mediaId") or item.get("url"))


async def check(who: Actor, wanted: Wanted) -> Sequence[PublishWarning]:
    """Run all checks of an acceptance; return the warnings. Raises ApiError."""
    order = await accept.prepare(who, wanted.request, None, {})
    return [note for target in order.targets for note in target.warnings]


async def bring_in(who: Actor, wanted: Wanted) -> None:
    """Accept the post. Raises ApiError, with nothing written, if refused."""
    await accept.commit(await accept.prepare(who, wanted.request, None, {}))


def problems(error: ApiError, account: AccountRow | None) -> list[dict[str, Any]]:
    """List the problems of a row: `{code, rule, message, remediation}`."""
    found = error.platform_response if error.code == "preflight_failed" else None
    if not isinstance(found, list):
        return [{"code": error.code, "rule": error.rule, "message": error.message, "remediation": error.remediation}]
    label = platforms.platform(account["platform"]).label if account else ""
    return [
        {
            "code": error.code,
            "rule": one["rule"],
            "message": f"{label}: {one['message']}",
            "remediation": one["remediation"],
        }
        for one in found
    ]


def _wrong(field: str, message: str) -> ApiError:
    return ApiError("validation_failed", message, rule=field)
