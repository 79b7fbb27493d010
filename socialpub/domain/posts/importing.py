"""Posts that come from a file: each becomes a request for one target, checked and accepted as if it had been sent.

A post that is there already (the same account, time, text and media, and not canceled) is left alone: so a file can be
imported again, after a crash or by mistake, and no post is there twice.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.domain.people import named
from socialpub.domain.people.actor import Actor
from socialpub.domain.posts import accept
from socialpub.domain.shapes.common import MEDIA_ID_PATTERN
from socialpub.domain.shapes.issues import parse_object
from socialpub.domain.shapes.posts import MediaItem, PublishRequest
from socialpub.platforms.contract import Warning
from socialpub.store import sql
from socialpub.store.rows import AccountRow
from socialpub.store.statements import carrying

GIVEN = ("account", "accountId", "platform", "text", "media", "mediaRefs", "scheduledAt", "options", "firstComment")
RESULTS = frozenset(
    "id batchId profileId status nextAttemptAt publishedAt platformUri platformCid url error warnings createdAt "
    "updatedAt".split()
)
"""What an export says of a post, and an import does not ask for."""
ACCOUNTS_KEPT = 1000  # looked up
VIDEO_SUFFIXES = (".mp4", ".m4v", ".mov", ".webm")
_MEDIA_ID = re.compile(MEDIA_ID_PATTERN)
_JOINED = re.compile(r"[,;|](?=https?://|med_)")  # between two media without white space
Given = Mapping[str, Any]


@dataclass(frozen=True)
class Wanted:
    """A post of the file: whose, and as it would be asked for over the API."""

    account: AccountRow
    request: PublishRequest

    @property
    def text(self) -> str:
        return self.request.text or ""

    @property
    def same(self) -> tuple[str, int | None, str, tuple[str, ...]]:
        """Two posts of which this is equal are one."""
        return self.account["id"], self.request.scheduled_at, self.text, _sources(self.request.media or ())


def finder(who: Actor) -> Callable[[str], AccountRow]:
    """What looks up the accounts that lines name, in the organization of whoever imports."""

    @functools.lru_cache(ACCOUNTS_KEPT)
    def find(name: str) -> AccountRow:
        return who.service.read(lambda: named.account(who.scope.organization, name)).result()

    return find


def read(given: Given, find: Callable[[str], AccountRow]) -> Wanted:
    """The post that a line means; ApiError says what is wrong with it."""
    there = {name: value for name, value in given.items() if value not in (None, "")}
    unknown = sorted(set(there) - set(GIVEN) - RESULTS)
    if unknown:
        raise _wrong(unknown[0], f"There is no such field as {ascii(unknown[0])}.")
    if "scheduledAt" not in there:
        raise _wrong("scheduledAt", "A post to import has a time at which it is published.")
    account = _account(there, find)
    return Wanted(account, parse_object(PublishRequest, _body(there, account)))


def _account(given: Given, find: Callable[[str], AccountRow]) -> AccountRow:
    """By its id, by what it is called; an export names it by all of that, and another server knows only some."""
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
    """Return the media of a cell that names them plainly: addresses, or ids of uploaded files, one after the other."""
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
    """Whether the post is there already, whatever has become of it but that it was canceled; in a read."""
    account, organization = wanted.account["id"], wanted.account["organization"]
    same = (account, wanted.request.scheduled_at, wanted.text, organization)
    sources = _sources(wanted.request.media or ())
    return any(_sources(sql.loads(media or "[]")) == sources for (media,) in sql.every(carrying.SAME, same))


def _sources(media: Sequence[Any]) -> tuple[str, ...]:
    """Where the media come from, as a request or a row names it."""
    return tuple(_source(item) for item in media)


def _source(item: Any) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, MediaItem):
        return str(item.media_id or item.url)
    return str(item.get("mediaId") or item.get("url"))


async def check(who: Actor, wanted: Wanted) -> Sequence[Warning]:
    """All that is checked before a post is accepted: what it warns of; ApiError, as the API would answer."""
    order = await accept.prepare(who, wanted.request, None, {})
    return [note for target in order.targets for note in target.warnings]


async def bring_in(who: Actor, wanted: Wanted) -> None:
    """Accept the post; ApiError, and nothing written, when anything says no."""
    await accept.commit(await accept.prepare(who, wanted.request, None, {}))


def problems(error: ApiError, account: AccountRow | None) -> list[dict[str, Any]]:
    """What is wrong with a line, each in words: `{code, rule, message, remediation}`."""
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
