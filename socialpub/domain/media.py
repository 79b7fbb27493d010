"""Media: what the bytes are, where they are kept, and how a post gets them at publishing time."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from PIL import Image

from socialpub import platforms
from socialpub.base import net
from socialpub.base.errors import ApiError, refuse
from socialpub.domain.service import Service
from socialpub.domain.tenancy import Scope
from socialpub.platforms.base import Facts, Item
from socialpub.platforms.rules import unreachable
from socialpub.store.db import Tx
from socialpub.store.models import Media

PIXELS_MAX = 50_000_000
FETCH_SECONDS = 120.0
SNIFF_BYTES = 64
EXTENSIONS = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/webp": "webp",
    "image/gif": "gif",
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/webm": "webm",
}
Row = dict[str, Any]


# --- What the bytes are ------------------------------------------------------------------------------------------


def sniff(head: bytes) -> str | None:
    """The content type that a file's first bytes show; None for anything but the seven kinds that are taken."""
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[4:8] == b"ftyp":
        return "video/quicktime" if head[8:12] == b"qt  " else "video/mp4"
    if head.startswith(b"\x1aE\xdf\xa3") and b"webm" in head:
        return "video/webm"
    return None


def measure(path: Path, sha256: str = "") -> Facts | None:
    """The facts of a file; None for an unsupported type.

    ApiError `media.unreadable` or `media.pixels_max` for an image that cannot be read or is too large. A video's
    dimensions and duration are not measured yet: they stay None.
    """
    with path.open("rb") as file:
        content_type = sniff(file.read(SNIFF_BYTES))
    if content_type is None:
        return None
    size = path.stat().st_size
    if content_type.startswith("video/"):
        return Facts(content_type, size, sha256)
    width, height, frames = _image_size(path, content_type)
    return Facts(content_type, size, sha256, width, height, frames)


def _image_size(path: Path, content_type: str) -> tuple[int, int, int]:
    formats = [content_type.removeprefix("image/").upper()]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=formats) as image:
                width, height = image.size
                frames = int(getattr(image, "n_frames", 1))
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise refuse("media.pixels_max") from error
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise refuse("media.unreadable") from error
    if width * height > PIXELS_MAX:
        raise refuse("media.pixels_max")
    return width, height, frames


# --- Kept files --------------------------------------------------------------------------------------------------


def _home(service: Service) -> Path:
    return service.runtime.settings.data_dir / "media"


def file_of(service: Service, sha256: str) -> Path:
    """Where the bytes with this hash are."""
    return _home(service) / sha256[:2] / sha256


def decode(data: str) -> bytes:
    """The bytes of `bytesBase64`; ApiError `media.base64_invalid`."""
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise refuse("media.base64_invalid") from error
    if not raw:
        raise refuse("media.base64_invalid")
    return raw


def store(service: Service, data: bytes) -> Facts:
    """Put bytes durably in their place under their hash, before any row names them, and measure them.

    Bytes of an unsupported or unreadable kind are kept too: for inline media the platform's own rule says no.
    """
    sha256 = hashlib.sha256(data).hexdigest()
    place = file_of(service, sha256)
    if not place.exists():
        with _arriving(place) as file:
            file.write(data)
    try:
        facts = measure(place, sha256)
    except ApiError:
        facts = None
    return facts or Facts(sniff(data[:SNIFF_BYTES]) or "application/octet-stream", len(data), sha256)


@contextlib.contextmanager
def _arriving(place: Path) -> Iterator[BinaryIO]:
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=".arriving-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def insert(service: Service, tx: Tx, organization: str, profile: str | None, facts: Facts, alt: str | None) -> str:
    """The row of a stored file; its id."""
    media_id = service.runtime.ids.prefixed("med_")
    Media.insert(
        id=media_id,
        organization=organization,
        profile=profile,
        content_type=facts.content_type,
        kind=facts.kind,
        size_bytes=facts.size,
        sha256=facts.sha256,
        width=facts.width,
        height=facts.height,
        frames=facts.frames,
        duration_ms=facts.duration_ms,
        alt_text=alt,
        created_at=service.now_ms,
    ).execute()
    return media_id


def find(scope: Scope, profile: str | None, media_id: str) -> Row:
    """The row of an asset that the scope (and profile) may use; ApiError `not_found`, rule `media.unknown`."""
    query = Media.select().where(
        Media.id == media_id, Media.organization == scope.organization, Media.deleted_at.is_null()
    )
    narrowed = profile or scope.profile
    if narrowed:
        query = query.where(Media.profile.is_null() | (Media.profile == narrowed))
    row = query.dicts().first()
    if row is None:
        raise refuse("media.unknown", f"The scope holds no media with the id {media_id}.")
    return row  # type: ignore[no-any-return]


def facts_of(row: Row) -> Facts:
    """What is known of an asset without opening its file."""
    return Facts(
        row["content_type"],
        row["size_bytes"],
        row["sha256"],
        row["width"],
        row["height"],
        row["frames"],
        row["duration_ms"],
    )


def public_url(service: Service, media_id: str, content_type: str) -> str:
    """The public, unguessable address of an asset."""
    mac = service.runtime.vault.sign("media", media_id.encode()).hex()[:32]
    return f"{service.base_url}/media/{media_id}/{mac}.{EXTENSIONS.get(content_type, 'bin')}"


# --- A post's items ----------------------------------------------------------------------------------------------


def assets_of(refs: Sequence[Mapping[str, Any]]) -> dict[str, Row]:
    """The rows of the assets that a post's media names, deleted ones included (on a read snapshot)."""
    ids = [ref["mediaId"] for ref in refs if "mediaId" in ref]
    return {row["id"]: row for row in Media.select().where(Media.id.in_(ids)).dicts()} if ids else {}


def draft_items(service: Service, refs: Sequence[Mapping[str, Any]], assets: Mapping[str, Row]) -> tuple[Item, ...]:
    """The items as cheap checks see them: no bytes, no facts."""
    return tuple(_item(service, ref, assets) for ref in refs)


def _item(service: Service, ref: Mapping[str, Any], assets: Mapping[str, Row]) -> Item:
    alt = ref.get("altText")
    if "mediaId" not in ref:
        return Item(ref["kind"], alt, ref.get("url"))
    asset = assets[ref["mediaId"]]
    url = public_url(service, asset["id"], asset["content_type"])
    return Item(ref["kind"], alt if alt is not None else asset["alt_text"], url, stored=True)


class Fetched:
    """By-URL media of running batches: each URL is fetched once a batch, and kept until its last target settles."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()

    def get(self, batch: str, url: str) -> Path:
        """The file of a URL. ApiError from the guarded client, or with the upstream's status in `platform_response`."""
        place = self._folder(batch) / hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
        with self._lock(str(place)):
            if not place.exists():
                self._fetch(url, place)
        return place

    def _fetch(self, url: str, place: Path) -> None:
        runtime = self._service.runtime
        with runtime.open_http(runtime.http_policy(guarded=True)) as http, _arriving(place) as file:
            reply = http.download(url, file, max_bytes=runtime.settings.media.max_bytes, deadline=FETCH_SECONDS)
            if not reply.ok:
                raise ApiError("preflight_failed", platform_response={"status": reply.status, "url": url})

    def put(self, batch: str, data: bytes) -> tuple[Path, str]:
        """Inline bytes of a batch that is only validated: their file and hash."""
        sha256 = hashlib.sha256(data).hexdigest()
        place = self._folder(batch) / sha256
        with self._lock(str(place)):
            if not place.exists():
                with _arriving(place) as file:
                    file.write(data)
        return place, sha256

    def kept(self) -> list[str]:
        """The batches whose files are here."""
        home = self._folder("")
        return [place.name for place in home.iterdir()] if home.is_dir() else []

    def drop(self, batch: str) -> None:
        """Forget a settled batch's files."""
        shutil.rmtree(self._folder(batch), ignore_errors=True)
        prefix = str(self._folder(batch))
        with self._guard:
            self._locks = {name: lock for name, lock in self._locks.items() if not name.startswith(prefix)}

    def _folder(self, batch: str) -> Path:
        return self._service.runtime.settings.data_dir / "fetched" / batch

    def _lock(self, name: str) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(name, threading.Lock())


def with_bytes(
    service: Service, fetched: Fetched, batch: str, platform: str, refs: str, assets: Mapping[str, Row]
) -> tuple[Item, ...]:
    """The items with their bytes and facts, in an I/O thread; `preflight_failed` for what cannot be had or read."""
    return tuple(
        resolved(service, fetched, batch, platform, index, ref, assets) for index, ref in enumerate(json.loads(refs))
    )


def resolved(
    service: Service,
    fetched: Fetched,
    batch: str,
    platform: str,
    index: int,
    ref: Mapping[str, Any],
    assets: Mapping[str, Row],
) -> Item:
    """One item with its bytes and facts; `preflight_failed` when it cannot be had or read."""
    item = _item(service, ref, assets)
    try:
        path, sha256 = _bytes_of(service, fetched, batch, ref, assets)
        facts = measure(path, sha256)
    except ApiError as error:
        raise _deep_error(platform, item, index, error) from error
    if facts is None:
        facts = Facts("application/octet-stream", path.stat().st_size, sha256)
    elif facts.kind != item.kind:
        raise _as_deep(
            refuse("media.kind_mismatch", f"Media item {index + 1} is said to be {item.kind}, it is {facts.kind}.")
        )
    return Item(item.kind, item.alt_text, item.url, item.stored, facts, path)


def _bytes_of(
    service: Service, fetched: Fetched, batch: str, ref: Mapping[str, Any], assets: Mapping[str, Row]
) -> tuple[Path, str]:
    if "mediaId" in ref:
        sha256 = assets[ref["mediaId"]]["sha256"]
        return file_of(service, sha256), sha256
    if "bytesBase64" in ref:
        return fetched.put(batch, decode(ref["bytesBase64"]))
    path = fetched.get(batch, ref["url"])
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def _deep_error(platform: str, item: Item, index: int, error: ApiError) -> ApiError:
    """A media failure as the target reports it: the service's own rule, or the platform's `…reachable`."""
    if error.rule:
        return _as_deep(error)
    row = unreachable(platforms.PLATFORMS[platform], item.kind)
    found = row.error("", f"Media item {index + 1} could not be fetched: {error.message}")
    found.platform_response = error.platform_response
    return found


def _as_deep(error: ApiError) -> ApiError:
    return ApiError("preflight_failed", error.message, rule=error.rule, remediation=error.remediation)


def url_error(url: str, allow_private: bool) -> str | None:
    """Why a media URL is refused by its own text; None when it may be tried."""
    if allow_private and url.startswith(("http://", "https://")):
        return None
    return net.check_url(url)
