"""Posts of other programs' exports as rows of an import; what cannot come over is named.

Postiz: the JSON of its `GET /public/v1/posts`. It has no export, and that list has no media and no threads' pieces.
Mixpost: the JSON of its posts as its pages and API show them (`PostResource`), with times in the zone of its settings.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, BinaryIO

from socialpub.base import json_codec
from socialpub.base.errors import ApiError
from socialpub.commands.serve import CommandRefusedError
from socialpub.domain.posts.spreadsheets import make_line_error
from socialpub.platforms import PLATFORMS
from socialpub_client.commands.times import parse_time

FILE_MAX = 64 * 1024 * 1024
POSTS_MAX = 100_000
UNKNOWN_FORMATS = {
    "buffer": (
        "Buffer has no export of its queue: its CSV files are reports of posts that were sent. Copy the queue into a "
        "CSV file with the columns account, scheduledAt, text and media, and import that."
    )
}
SOURCES = ("postiz", "mixpost", *UNKNOWN_FORMATS)
_NO_ID = re.compile(r"[^A-Za-z0-9._:/@-]")
_TAG = re.compile(r"</?(p|br|div|li|ul|ol|span|strong|em|b|i|u|a|h[1-6])\b[^<>]*>", re.IGNORECASE)
Json = dict[str, Any]


@dataclass(frozen=True)
class LeftOut:
    """Post that does not come over, and why."""

    message: str


@dataclass(frozen=True)
class ForeignPost:
    """Post of another program as a row of an import. `losses`: what of it does not come over."""

    external_id: str
    row: Json
    losses: list[str] = field(default_factory=list)


Row = ForeignPost | LeftOut


@dataclass(frozen=True)
class ExportReader:
    """Reader of an export. `zone`: of its local times. `names`: the account for a name in it."""

    source: str
    zone: str | None
    names: Mapping[str, str]

    def read(self, raw: BinaryIO) -> Iterator[tuple[int, Row | ApiError]]:
        """Yield a row for each post and account, numbered from 1. Raises CommandRefusedError."""
        if self.source in UNKNOWN_FORMATS:
            raise CommandRefusedError(UNKNOWN_FORMATS[self.source])
        convert = {"postiz": self._postiz, "mixpost": self._mixpost}[self.source]
        rows = (row for post in self._load(raw) for row in self._convert(convert, post))
        seen: set[str] = set()
        for number, row in enumerate(rows, 1):
            if isinstance(row, ForeignPost) and row.external_id in seen:
                row = LeftOut("the post occurs twice in the file")
            elif isinstance(row, ForeignPost):
                seen.add(row.external_id)
            yield number, row

    def _convert(self, convert: Callable[[Json], Iterator[Row]], post: Any) -> Iterator[Row | ApiError]:
        try:
            yield from list(convert(post))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            why = str(error) if isinstance(error, ValueError) else f"it lacks, or has another form of, {error}"
            yield make_line_error(f"This is no post of {self.source}: {why}.")

    def _load(self, raw: BinaryIO) -> list[Any]:
        text = raw.read(FILE_MAX + 1)
        if len(text) > FILE_MAX:
            raise CommandRefusedError(f"the file is larger than {FILE_MAX} bytes")
        try:
            found = json_codec.loads(text)
        except ValueError as error:
            raise CommandRefusedError(f"the file is not the JSON of {self.source}: {error}") from error
        for name in ("posts", "data"):
            if isinstance(found, dict) and name in found:
                found = found[name]
        if not isinstance(found, list) or len(found) > POSTS_MAX:
            raise CommandRefusedError(f"the file has no list of at most {POSTS_MAX} posts, as {self.source} gives it")
        return found

    def _postiz(self, post: Json) -> Iterator[Row]:
        integration, state = post["integration"], post["state"]
        name = f"{post['id']}"
        if state != "QUEUE":
            yield LeftOut(f"post {name}: its state is {state}, and only what is queued is imported")
            return
        if post.get("intervalInDays"):
            yield LeftOut(f"post {name}: it repeats every {post['intervalInDays']} days; schedule each time by itself")
            return
        losses, media = [], []
        if "image" in post:
            images = json_codec.loads(post["image"]) if isinstance(post["image"], str) else post["image"]
            media = [_media(each["path"]) for each in images or ()]
        else:
            losses.append("Postiz's list does not say whether this post has media: compare it before it goes out.")
        losses += _lost_settings(post.get("settings"))
        account = self._account(integration["providerIdentifier"], integration["name"])
        row = _row(account, str(post["publishDate"]), plain_text(post["content"]), media)
        yield ForeignPost(self._id(name), row, losses)

    def _mixpost(self, post: Json) -> Iterator[Row]:
        name, status, when = str(post["id"]), post["status"], post["scheduled_at"]
        if status != "SCHEDULED" or not when.get("date"):
            yield LeftOut(f"post {name}: its status is {status}, and only what is scheduled is imported")
            return
        at = parse_time(f"{when['date']} {when['time']}", self.zone).isoformat()
        versions: dict[Any, Json] = {version["account_id"]: version for version in post["versions"]}
        (original,) = (version for version in post["versions"] if version["is_original"])
        for account in post["accounts"]:
            content = versions.get(account["id"], original)["content"]
            if len(content) != 1:
                yield LeftOut(f"post {name} to {account['name']}: it is a thread of {len(content)} pieces")
                continue
            media = [_media(each["url"], is_video=bool(each.get("is_video"))) for each in content[0]["media"]]
            row = _row(self._account(account["provider"], account["name"]), at, plain_text(content[0]["body"]), media)
            losses = ["Its tags were left out."] if post.get("tags") else []
            yield ForeignPost(self._id(f"{name}/{account['id']}"), row, losses)

    def _id(self, name: str) -> str:
        """Return the external id of a post; a name that no id can hold is replaced by its hash."""
        if _NO_ID.search(name) or len(name) > 100:
            name = hashlib.sha256(name.encode()).hexdigest()
        return f"{self.source}/{name}"

    def _account(self, provider: str, name: str) -> str:
        """Return the name to find an account by: as mapped, or its platform and name."""
        if name in self.names:
            return self.names[name]
        platform = find_platform(provider)
        return f"{platform} {name}" if platform else name


def find_platform(provider: str) -> str | None:
    """Return our name of a platform: `linkedin-page` and `facebook_page` are kinds of one."""
    known: dict[str, str] = {}
    for platform in PLATFORMS.values():
        known |= {platform.name: platform.name, platform.label.casefold(): platform.name}
    return known.get(re.split(r"[-_]", provider.casefold())[0])


def _row(account: str, at: str, text: str, media: list[Json]) -> Json:
    return {"account": account, "scheduledAt": at, "text": text, "media": media}


def _media(url: str, *, is_video: bool | None = None) -> Json:
    path = url.partition("?")[0].lower()
    video = path.endswith((".mp4", ".mov", ".m4v", ".webm")) if is_video is None else is_video
    return {"kind": "video" if video else "image", "url": url}


def _lost_settings(settings: Any) -> list[str]:
    found = json_codec.loads(settings) if isinstance(settings, str) else settings or {}
    lost = sorted(name for name, value in found.items() if not name.startswith("__") and value)
    return [f"Its settings were left out: {', '.join(lost)}."] if lost else []


class _TextCollector(HTMLParser):
    """Collects the text of HTML, with a line for each paragraph."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "br":
            self.parts.append("\n")
        elif tag == "li":
            self.parts.append("- ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("p", "div", "li", "h1", "h2", "h3", "h4", "h5", "h6"):
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def plain_text(content: str) -> str:
    """Return the text of an editor's HTML; text without its tags stays as it is."""
    if not _TAG.search(content):
        return content
    collector = _TextCollector()
    collector.feed(content)
    collector.close()
    return "".join(collector.parts).strip("\n")
