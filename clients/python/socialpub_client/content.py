"""Content of posts: targets, media and times, as a publish request carries them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from socialpub_client import errors, models
from socialpub_client.engine import Engine, format_time, given, read, read_list, segment, upload_headers
from socialpub_client.messages import FileUpload, HashFile, Progress, Source, Steps

Json = Mapping[str, Any]
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
MEDIA_ID = re.compile(r"med_[0-9A-Za-z]{22}")


@dataclass(frozen=True)
class Media:
    """Media item: a file's `path`, the `id` of an uploaded file, or a public https `url`.

    `alt`: what it shows, for people who cannot see it. `kind`: `image` or `video`, where a URL does not tell.
    """

    path: str | os.PathLike[str] | None = None
    id: str | None = None
    url: str | None = None
    alt: str | None = None
    kind: str | None = None


MediaLike: TypeAlias = Media | Path | str


@dataclass(frozen=True)
class Target:
    """Account, by id or as the only one of its platform, and its differences."""

    account: str
    text: str | None = None
    media: Sequence[MediaLike] | None = None
    options: Json | None = None
    first_comment: str | None = None
    thread: Sequence[Json] | None = field(default=None)


TargetLike: TypeAlias = Target | str


def build_content(
    engine: Engine,
    text: str | None,
    *,
    to: TargetLike | Iterable[TargetLike],
    media: Sequence[MediaLike],
    at: datetime | str | None,
    slot: str | None,
    first_comment: str | None,
    thread: Sequence[Json] | None,
    external_id: str | None,
    on_duplicate: str | None,
) -> Steps[dict[str, Any]]:
    """Build the body of a publish request; files are uploaded, unless the server has them."""
    files = _Files(engine)
    targets = [to] if isinstance(to, Target | str) else list(to)
    if not targets:
        raise errors.InvalidArgument("There is no target.")
    entries: list[dict[str, Any]] = []
    for target in targets:
        entries.append((yield from _build_target(files, target)))
    items = yield from files.build(media)
    return given(
        targets=entries,
        text=text,
        media=items or None,
        scheduledAt=None if at is None else format_time(at),
        slot=slot,
        firstComment=None if first_comment is None else {"text": first_comment},
        thread=None if thread is None else list(thread),
        externalId=external_id,
        onDuplicate=on_duplicate,
        profileId=engine.profile,
    )


def _build_target(files: _Files, target: TargetLike) -> Steps[dict[str, Any]]:
    target = Target(target) if isinstance(target, str) else target
    name = "accountId" if UUID.fullmatch(target.account) else "platform"
    items = None if target.media is None else (yield from files.build(target.media))
    return {name: target.account} | given(
        text=target.text,
        media=items,
        options=target.options,
        firstComment=None if target.first_comment is None else {"text": target.first_comment},
        thread=None if target.thread is None else list(target.thread),
    )


def build_media(engine: Engine, media: Sequence[MediaLike]) -> Steps[list[str | dict[str, Any]]]:
    """Build the media of a request; files are uploaded, unless the server has them."""
    return (yield from _Files(engine).build(media))


class _Files:
    """Uploaded files of one request: each path is read once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stored: dict[str, models.MediaFile] = {}

    def build(self, media: Sequence[MediaLike]) -> Steps[list[str | dict[str, Any]]]:
        """Build the entries of media items."""
        if isinstance(media, str | Path):
            raise errors.InvalidArgument("`media` is a list of items.")
        items: list[str | dict[str, Any]] = []
        for each in media:
            items.append((yield from self._item(as_media(each))))
        return items

    def _item(self, media: Media) -> Steps[str | dict[str, Any]]:
        if sum(source is not None for source in (media.path, media.id, media.url)) != 1:
            raise errors.InvalidArgument("A media item has exactly one of `path`, `id` and `url`.")
        alt = given(altText=media.alt)
        if media.url is not None:
            return {"kind": media.kind or guess_kind(media.url.partition("?")[0]), "url": media.url, **alt}
        if media.path is not None:
            stored = yield from self._store(Path(media.path))
            return {"kind": stored.kind, "mediaId": stored.id, **alt}
        assert media.id is not None
        if not alt:
            return media.id
        kind = media.kind or (yield from self._read(media.id)).kind
        return {"kind": kind, "mediaId": media.id, **alt}

    def _store(self, path: Path) -> Steps[models.MediaFile]:
        """Return the stored file with these bytes, so that a repeated call sends the same body."""
        if str(path) not in self._stored:
            digest = yield HashFile(path)
            found = yield from find_media(self._engine, digest)
            self._stored[str(path)] = found or (yield from upload_media(self._engine, path))
        return self._stored[str(path)]

    def _read(self, id: str) -> Steps[models.MediaFile]:
        path, profile = f"/v1/media/{segment(id)}", self._engine.profile
        return (yield from self._engine.get(path, models.MediaFile.parse, profileId=profile))


def as_media(media: MediaLike) -> Media:
    """Return a path, the id of an uploaded file or an https address as an item."""
    if isinstance(media, Media):
        return media
    if isinstance(media, Path):
        return Media(path=media)
    if MEDIA_ID.fullmatch(media):
        return Media(id=media)
    if media.startswith("https://"):
        return Media(url=media)
    raise errors.InvalidArgument(
        "A media item given as text is an id (`med_…`) or an https address; wrap a path in Path."
    )


def guess_kind(name: str) -> str:
    """Return the kind of a file by its name."""
    import mimetypes  # reads files of the system when it is imported

    guessed = mimetypes.guess_type(name)[0] or ""
    return "document" if guessed == "application/pdf" else "video" if guessed.startswith("video/") else "image"


def find_media(engine: Engine, sha256: str) -> Steps[models.MediaFile | None]:
    """Return a stored file with these bytes, or None."""
    params = {"sha256": sha256.lower(), "limit": 1, "profileId": engine.profile}
    found = read_list(models.MediaFile.parse, (yield from engine.request("GET", "/v1/media", params=params)))
    return found[0] if found else None


def upload_media(
    engine: Engine,
    source: Source,
    *,
    alt: str | None = None,
    name: str | None = None,
    progress: Progress | None = None,
    idempotency_key: str | None = None,
) -> Steps[models.MediaFile]:
    """Upload a file in pieces; each try reads it from its beginning."""
    boundary = f"socialpub-{engine.runtime.new_key()}"
    path = source if isinstance(source, str | os.PathLike) else getattr(source, "name", "")
    shown = name or Path(str(path)).name or "file"
    answer = yield from engine.request(
        "POST",
        "/v1/media",
        params={"profileId": engine.profile, "altText": alt},
        body=FileUpload(source, shown, boundary, progress),
        headers=upload_headers(boundary),
        idempotency_key=idempotency_key,
    )
    return read(models.MediaFile.parse, answer)
