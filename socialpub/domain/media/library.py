"""Media records, their public URLs, and the bytes of a post's media at publishing."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from peewee import SQL, NodeList, Tuple

from socialpub import platforms
from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.errors import ApiError, rule_error
from socialpub.base.runtime import DAY_MS, format_iso
from socialpub.base.security import crypto
from socialpub.domain.access import actions, idempotency
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import cursors
from socialpub.domain.media import files, probe
from socialpub.domain.media.batch_cache import BatchMediaCache as BatchMediaCache
from socialpub.domain.media.files import file_path
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.common import DeletedBody
from socialpub.domain.schemas.media import MediaBody, MediaChange, MediaFields, MediaPage, MediaQuery
from socialpub.platforms.contract import DOCUMENT_TYPE, Draft, DraftMedia, MediaFacts, MediaKind
from socialpub.platforms.kit.rule_catalog import find_fetch_rule
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import acceptance, drafts, maintenance
from socialpub.store.rows import MediaRow
from socialpub.store.schema.models import Media, find_row_where, find_rows

EXTENSIONS = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/webp": "webp",
    "image/gif": "gif",
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/webm": "webm",
    DOCUMENT_TYPE: "pdf",
}
LISTING = "media"
UNUSED_MAX = 500  # files that one act deletes
SEARCHED_MAX = 5000  # files whose descriptions are read for one page
UNUSED_BATCH_SIZE = 25  # per transaction: each one reads the open posts of its organization that name files
log = logging.getLogger("socialpub.media")
InlineFiles = Mapping[str, files.IncomingFile]  # inline files of a request by their hash
T = TypeVar("T")


# --- Storing -----------------------------------------------------------------------------------------------------


def store_inline(service: AppContext, incoming: files.IncomingFile, organization: str) -> MediaFacts:
    """Store an inline file durably before a row names it, and measure it.

    Unsupported and unreadable files are stored too: the platform's rule refuses them at publishing.
    """
    incoming.finish()
    kind = probe.sniff(incoming.head) or probe.UNKNOWN_TYPE
    try:
        facts = probe.measure(incoming.path, incoming.sha256, organization)
    except ApiError as error:
        if error.code == "internal_error":
            raise
        facts = None
    files.save(service, incoming)
    return facts or MediaFacts(kind, incoming.size, incoming.sha256)


def store_all_inline(service: AppContext, inline: InlineFiles, organization: str) -> dict[str, MediaFacts]:
    """Store inline files as `store_inline` does, all or none; return facts by hash."""
    stored: dict[str, MediaFacts] = {}
    try:
        for data, incoming in inline.items():
            stored[data] = store_inline(service, incoming, organization)
    except Exception:
        release_unreferenced(service, stored.values())
        raise
    return stored


def store_upload(service: AppContext, incoming: files.IncomingFile, organization: str) -> MediaFacts:
    """Store an upload. Raises `media.type_unsupported`, `media.unreadable`, `media.pixels_max`."""
    incoming.finish()
    facts = probe.measure(incoming.path, incoming.sha256, organization)
    if facts is None:
        raise rule_error("media.type_unsupported")
    files.save(service, incoming)
    return facts


async def upload(who: Actor, incoming: files.IncomingFile, fields: MediaFields) -> idempotency.StoredResponse:
    """Store an upload and its record; return the response, once per Idempotency-Key."""
    return await idempotency.run_once(who.service, who.key, lambda: _upload_once(who, incoming, fields))


async def _upload_once(who: Actor, incoming: files.IncomingFile, fields: MediaFields) -> idempotency.StoredResponse:
    service, asked = who.service, fields.profile_id
    if who.scope.profile is not None and asked not in (None, who.scope.profile):
        raise rule_error("profile.scope_mismatch")
    await service.read(lambda: profiles.check_profile(who.scope, asked))
    threads, share = service.executors.immediate, ShareKey(owner=who.scope.organization)
    facts = await threads.run(share, store_upload, service, incoming, who.scope.organization)
    async with delete_on_failure(service, [facts]):
        return await actions.respond(actions.bind(who, _insert_upload, facts, fields))


def _insert_upload(tx: Tx, who: Actor, facts: MediaFacts, fields: MediaFields) -> ActionResult:
    release_after_commit(who.service, tx, [facts])
    profiles.check_profile(who.scope, fields.profile_id)
    profile = fields.profile_id or who.scope.profile
    media_id = new_id(who.service)
    insert(who.service, tx, who.scope.organization, profile, facts, fields.alt_text, media_id)
    return ActionResult(to_body(who.service, find(who.scope, None, media_id)), 201)


@contextlib.asynccontextmanager
async def delete_on_failure(service: AppContext, stored: Collection[MediaFacts]) -> AsyncIterator[None]:
    """Delete the stored files if the block that creates their rows fails."""
    try:
        yield
    except Exception:
        if stored:
            loop, threads = asyncio.get_running_loop(), service.executors.immediate
            await loop.run_in_executor(threads, release_unreferenced, service, stored)
        raise


def release_after_commit(service: AppContext, tx: Tx, stored: Collection[MediaFacts]) -> None:
    """Release the leases once this transaction, whose rows name the files, commits."""
    for facts in stored:
        tx.after_commit(functools.partial(files.release, service, facts.sha256))


def release_unreferenced(service: AppContext, stored: Collection[MediaFacts]) -> None:
    """Delete stored files that got no rows, unless referenced elsewhere."""
    for facts in stored:
        files.release_unreferenced(service, facts.sha256)


def _check_quota(service: AppContext, organization: str, coming: int) -> None:
    """Raise ApiError `media.quota`; inside the transaction, so that requests cannot overshoot."""
    most = service.runtime.settings.media.organization_bytes
    if not most:
        return
    media = sql.fetch_one(acceptance.SUM_MEDIA_BYTES, (organization,))[0]
    if media + coming > most:
        raise rule_error(
            "media.quota",
            f"The organization's media take up {media:,} of {most:,} bytes; this file would add {coming:,}.",
        )


def new_id(service: AppContext) -> str:
    return service.runtime.ids.prefixed("med_")


def insert(
    service: AppContext,
    tx: Tx,
    organization: str,
    profile: str | None,
    facts: MediaFacts,
    alt: str | None,
    media_id: str,
    needed_ms: int | None = None,
) -> None:
    """Insert the row of a stored file; `needed_ms`: when a post needs it. Raises `media.quota`."""
    _check_quota(service, organization, facts.size)
    Media.insert(
        id=media_id,
        organization=organization,
        profile=profile,
        content_type=facts.content_type,
        kind=facts.kind,
        size_bytes=facts.size,
        alt_text=alt or None,
        created_at=service.now_ms,
        used_at=needed_ms or service.now_ms,
        **{column: getattr(facts, column) for column in FACT_COLUMNS},
    ).execute()


FACT_COLUMNS = (
    "sha256",
    "width",
    "height",
    "frames",
    "duration_ms",
    "frame_rate",
    "bit_rate",
    "video_codec",
    "audio_codec",
    "has_audio",
)
"""Columns named like the facts they hold."""


def read_facts(row: MediaRow) -> MediaFacts:
    """Read the facts from the row, without opening the file."""
    columns: Mapping[str, Any] = row
    return MediaFacts(row["content_type"], row["size_bytes"], **{column: columns[column] for column in FACT_COLUMNS})


# --- Records -----------------------------------------------------------------------------------------------------


def find(scope: Scope, profile: str | None, media_id: str) -> MediaRow:
    """Load an asset the scope may use. Raises ApiError `not_found`, rule `media.unknown`."""
    row: MediaRow | None = _select_usable(scope, profile or scope.profile).where(Media.id == media_id).dicts().first()
    if row is None:
        raise rule_error("media.unknown", f"There is no media {media_id} in the scope of this request.")
    return row


def load_all(scope: Scope, ids: Collection[str]) -> dict[str, MediaRow]:
    """Load those of these assets that the organization has, in one query."""
    if not ids:
        return {}
    rows = sql.fetch_all(acceptance.FIND_MEDIA, (sql.dump_json(sorted(ids)), scope.organization))
    return {row["id"]: row for row in map(_media_row, rows)}


def _media_row(values: Sequence[Any]) -> MediaRow:
    row = sql.to_row(MediaRow, values)
    row["has_audio"] = None if row["has_audio"] is None else bool(row["has_audio"])
    return row


def get_usable(media: Mapping[str, MediaRow], profile: str, media_id: str) -> MediaRow:
    """Return the asset if the profile may use it. Raises as `find`."""
    check_usable({asset: row["profile"] for asset, row in media.items()}, profile, media_id)
    return media[media_id]


def check_usable(profiles: Mapping[str, str | None], profile: str, media_id: str) -> None:
    """Raise as `find` unless the asset is among these (profile by id) and may be used."""
    if media_id not in profiles or profiles[media_id] not in (None, profile):
        raise rule_error("media.unknown", f"There is no media {media_id} in the scope of this request.")


def _select_usable(scope: Scope, profile: str | None, *, use_index: bool = True) -> Any:
    organization = Media.organization if use_index else NodeList((SQL("+"), Media.organization), glue="")
    query = Media.select().where(organization == scope.organization, Media.deleted_at.is_null())
    return query.where(Media.profile.is_null() | (Media.profile == profile)) if profile else query


def to_body(service: AppContext, row: MediaRow) -> MediaBody:
    """Build the API body of an asset."""
    return {
        "id": row["id"],
        "url": public_url(service, row["id"], row["content_type"]),
        "contentType": row["content_type"],
        "sizeBytes": row["size_bytes"],
        "sha256": row["sha256"],
        "kind": row["kind"],
        "width": row["width"],
        "height": row["height"],
        "durationMs": row["duration_ms"],
        "profileId": row["profile"],
        "altText": row["alt_text"],
        "createdAt": format_iso(row["created_at"]),
    }


def load_page(service: AppContext, scope: Scope, query: MediaQuery, words: str = "") -> MediaPage:
    """Load one page of the media the scope (and profile) may use, newest first.

    `words`: only those whose description contains them, among the first SEARCHED_MAX; `nextCursor` continues.

    Raises ApiError `not_found` for a profile out of scope, `cursor` for a foreign cursor.
    """
    profile = scope.narrowed(query.profile_id)
    profiles.check_profile(scope, query.profile_id)
    found = _select_usable(scope, profile, use_index=query.sha256 is None)
    if query.sha256 is not None:
        found = found.where(Media.sha256 == query.sha256)
    position = Tuple(Media.created_at, Media.id)
    if query.cursor:
        found = found.where(position < cursors.decode(service, LISTING, scope.organization, query.cursor))
    found = found.order_by(Media.created_at.desc(), Media.id.desc())
    end: MediaRow | None = None  # the last one that is searched
    if words:
        end = found.offset(SEARCHED_MAX - 1).limit(1).dicts().first()
        found = found.where(
            Media.alt_text.contains(words), *([position >= (end["created_at"], end["id"])] if end else [])
        )
    rows: list[MediaRow] = list(found.limit(query.limit + 1).dicts())
    shown = rows[: query.limit]
    more = shown[-1] if len(rows) > query.limit else end
    cursor = more and cursors.encode(service, LISTING, scope.organization, more["created_at"], more["id"])
    return {"data": [to_body(service, row) for row in shown], "nextCursor": cursor}


def describe(tx: Tx, who: Actor, media_id: str, change: MediaChange) -> MediaBody:
    """Change the description of an asset, which ends approvals of drafts with it.

    Raises ApiError as `delete`, but not for drafts: an open post was accepted with the description.
    """
    _find_own(who.scope, media_id)
    post, _ = find_uses(media_id)
    if post:
        remedy = "Edit the description in the post, or wait until it is published."
        raise rule_error("media.in_use", f"Post {post} needs this media.", remediation=remedy)
    Media.update(alt_text=change.alt_text or None).where(Media.id == media_id).execute()
    sql.execute(drafts.END_APPROVALS, (media_id,))
    return to_body(who.service, find(who.scope, None, media_id))


def delete(tx: Tx, who: Actor, media_id: str) -> DeletedBody:
    """Delete an asset; return `{id, deleted}`. Raises ApiError `media.in_use` if needed.

    A key bound to a profile deletes only that profile's assets.
    """
    row = _find_own(who.scope, media_id)
    if user := _find_user(media_id):
        raise rule_error("media.in_use", f"{user} needs this media.")
    _delete_asset(who.service, tx, media_id, row["sha256"])
    return {"id": media_id, "deleted": True}


def _find_own(scope: Scope, media_id: str) -> MediaRow:
    row = find(scope, None, media_id)
    if scope.profile not in (None, row["profile"]):
        raise rule_error("media.unknown", f"The key's profile has no media {media_id}.")
    return row


def _find_user(media: str) -> str | None:
    """Return the open post or unpublished draft that needs a file, in words, or None."""
    post, draft = find_uses(media)
    return f"Post {post}" if post else f"Draft {draft}" if draft else None


def find_uses(media: str) -> tuple[str | None, str | None]:
    """Return the ids of an open post and of an unpublished draft that need a file."""
    post = sql.fetch_value(maintenance.FIND_POST_WITH_MEDIA, (media,))
    return post, sql.fetch_value(maintenance.FIND_DRAFT_WITH_MEDIA, (media,))


def delete_all(tx: Tx, who: Actor) -> None:
    """Mark all media of an organization in deletion; the next clean-up removes the files.

    Not here: this may be a command beside the server, and only the server knows which files are arriving.
    """
    here = (Media.organization == who.scope.organization) & Media.deleted_at.is_null() & (Media.size_bytes > 0)
    Media.update(deleted_at=who.service.now_ms).where(here).execute()


def _delete_asset(service: AppContext, tx: Tx, media: str, sha256: str) -> None:
    """Mark the row deleted; remove the file after the commit unless it is still referenced."""
    sql.execute(maintenance.SET_MEDIA_DELETED, (service.now_ms, media))
    tx.after_commit(lambda: _remove_file(service, sha256))


def _remove_file(service: AppContext, sha256: str) -> None:
    service.executors.immediate.submit(files.remove_unreferenced, service, sha256)


# --- Unused media ------------------------------------------------------------------------------------------------


def extend_retention(service: AppContext, tx: Tx, media: Iterable[MediaRow], at_ms: int | None) -> None:
    """Extend the retention of media that a post needs, at `at_ms` or now.

    Written only if that is a day later than the stored time.
    """
    needed = at_ms or service.now_ms
    stale = [row["id"] for row in media if row["used_at"] < needed - DAY_MS]
    if stale:
        sql.execute(acceptance.TOUCH_MEDIA, (needed, sql.dump_json(stale)))


def delete_unused(service: AppContext, before_ms: int) -> int:
    """Delete a batch of media unused since `before_ms`; return the number examined."""
    if service.read(lambda: sql.fetch_one(maintenance.FIND_UNUSED_MEDIA, (before_ms, 1))).result() is None:
        return 0
    examined, deleted = service.write(lambda tx: _delete_unused_batch(service, tx, before_ms)).result()
    if deleted:
        log.info("deleted %d media files that no post needs", deleted)
    return examined


def _delete_unused_batch(service: AppContext, tx: Tx, before_ms: int) -> tuple[int, int]:
    found = sql.fetch_all(maintenance.FIND_UNUSED_MEDIA, (before_ms, UNUSED_BATCH_SIZE))
    return len(found), sum(_delete_if_unused(service, tx, media, sha256) for media, sha256 in found)


class UnusedFiles(NamedTuple):
    """Unused files: their number, at most UNUSED_MAX, and bytes.

    No open post and no unpublished draft needs them.
    """

    files: int
    size_bytes: int


def count_unused(service: AppContext, scope: Scope, profile: str | None) -> UnusedFiles:
    """Count the unused files of a profile, or of all. Raises ApiError `not_found`."""
    sizes = [size for _, _, size in _find_unused(service, scope, profile)]
    return UnusedFiles(len(sizes), sum(sizes))


def delete_all_unused(tx: Tx, who: Actor, profile: str | None) -> ActionResult:
    """Delete up to UNUSED_MAX unused files of a profile, or of all; return `{count}`.

    Raises ApiError `not_found`.
    """
    found = _find_unused(who.service, who.scope, profile)
    for media, sha256, _ in found:
        _delete_asset(who.service, tx, media, sha256)
    return ActionResult({"count": len(found)}, subject=profile or who.scope.organization)


def _find_unused(service: AppContext, scope: Scope, profile: str | None) -> list[tuple[str, str, int]]:
    """Find unused files. Those stored or needed within a day stay: a form may still name them."""
    profiles.check_profile(scope, profile)
    values = (scope.organization, scope.narrowed(profile), service.now_ms - DAY_MS, UNUSED_MAX)
    return sql.fetch_all(maintenance.FIND_UNUSED_OF_ORGANIZATION, values)


def _delete_if_unused(service: AppContext, tx: Tx, media: str, sha256: str) -> bool:
    if _find_user(media):
        sql.execute(maintenance.TOUCH_MEDIA, (service.now_ms, media))
        return False
    _delete_asset(service, tx, media, sha256)
    return True


# --- Public URLs -------------------------------------------------------------------------------------------------


def public_url(service: AppContext, media_id: str, content_type: str) -> str:
    """Return the public, unguessable URL of an asset."""
    return f"{service.base_url}/media/{media_id}/{_file_name(service, media_id, content_type)}"


def _file_name(service: AppContext, media_id: str, content_type: str) -> str:
    mac = service.runtime.vault.sign("media", media_id.encode()).hex()[:32]
    return f"{mac}.{EXTENSIONS.get(content_type, 'bin')}"


def find_public(service: AppContext, media_id: str, name: str) -> MediaRow:
    """Load the row of a public URL. Raises ApiError `not_found` if wrong or deleted."""
    row = find_row_where(Media, Media.id == media_id, Media.deleted_at.is_null())
    wanted = _file_name(service, media_id, row["content_type"] if row else "")
    if row is None or not crypto.is_equal(wanted.encode(), name.encode("utf-8", "surrogatepass")):
        raise ApiError("not_found", "There is nothing at this address.")
    return row


# --- Items of a post ---------------------------------------------------------------------------------------------


def load_assets(refs: Sequence[Mapping[str, Any]]) -> dict[str, MediaRow]:
    """Load the assets a post's media names, including deleted ones (on a read snapshot)."""
    ids = [ref["mediaId"] for ref in refs if "mediaId" in ref]
    return {row["id"]: row for row in find_rows(Media, Media.id.in_(ids))} if ids else {}


def build_draft_item(service: AppContext, ref: Mapping[str, Any], assets: Mapping[str, MediaRow]) -> DraftMedia:
    """Build an item without bytes and facts, for cheap checks."""
    alt = ref.get("altText")
    if "mediaId" not in ref:
        return DraftMedia(ref["kind"], alt, ref.get("url"))
    asset = assets[ref["mediaId"]]
    url = public_url(service, asset["id"], asset["content_type"])
    return DraftMedia(ref["kind"], alt if alt is not None else asset["alt_text"], url, stored=True)


def build_items(
    service: AppContext, fetched: BatchMediaCache, batch: str, platform: str, refs: str, assets: Mapping[str, MediaRow]
) -> tuple[DraftMedia, ...]:
    """Build the items with bytes and facts, in an I/O thread. Raises `preflight_failed`."""
    return tuple(
        build_item(service, fetched, batch, platform, index, ref, assets) for index, ref in enumerate(json.loads(refs))
    )


def build_item(
    service: AppContext,
    fetched: BatchMediaCache,
    batch: str,
    platform: str,
    index: int,
    ref: Mapping[str, Any],
    assets: Mapping[str, MediaRow],
) -> DraftMedia:
    """Build one item with bytes and facts. Raises `preflight_failed` if unavailable."""
    item, name = build_draft_item(service, ref, assets), f"Media item {index + 1}"
    try:
        path, facts = _locate_file(service, fetched, batch, ref, assets)
    except ApiError as error:
        raise _to_target_error(platform, item.kind, name, error) from error
    if facts.kind != item.kind and facts.content_type != probe.UNKNOWN_TYPE:
        raise _to_preflight_error(
            rule_error("media.kind_mismatch", f"{name} is declared as {item.kind}, but it is {facts.kind}.")
        )
    return replace(item, facts=facts, path=path)


def list_urls(platform: str, refs: str, draft: Draft) -> list[str]:
    """List the URLs to fetch for a draft: its media, and images named by options."""
    urls = [ref["url"] for ref in json.loads(refs) if "url" in ref]
    images = platforms.platform(platform).option_images.items()
    return urls + [draft.options[option] for option, is_used in images if option in draft.options and is_used(draft)]


def measure_option_images(fetched: BatchMediaCache, batch: str, platform: str, draft: Draft) -> dict[str, MediaFacts]:
    """Measure the images that options name, in an I/O thread. Raises `preflight_failed`."""
    found = {}
    for option, is_used in platforms.platform(platform).option_images.items():
        if option in draft.options and is_used(draft):
            try:
                found[option] = fetched.get(batch, draft.options[option])[1]
            except ApiError as error:
                raise _to_target_error(platform, "image", f"The image of `{option}`", error) from error
    return found


def _locate_file(
    service: AppContext, fetched: BatchMediaCache, batch: str, ref: Mapping[str, Any], assets: Mapping[str, MediaRow]
) -> tuple[Path, MediaFacts]:
    if "mediaId" in ref:
        return _locate_stored(service, assets[ref["mediaId"]])
    if "bytesBase64" in ref:
        return fetched.get_inline(batch, ref["bytesBase64"])
    return fetched.get(batch, ref["url"])


def _locate_stored(service: AppContext, asset: MediaRow) -> tuple[Path, MediaFacts]:
    facts, path = read_facts(asset), file_path(service, asset["sha256"])
    if not path.exists():
        files.check_folder(service)
        raise rule_error("media.unknown", f"The media {asset['id']} was deleted.")
    # A picture or video stored unreadable with its request; publishing needs the facts.
    if facts.width is None and facts.kind != "document":
        facts = probe.measure(path, facts.sha256, asset["organization"]) or facts
    return path, facts


def _to_target_error(platform: str, kind: MediaKind, name: str, error: ApiError) -> ApiError:
    """Convert a media failure into the target's error: a service rule or the platform's."""
    if error.code == "internal_error":
        return error
    if error.rule:
        return _to_preflight_error(error)
    row = find_fetch_rule(platforms.PLATFORMS[platform], kind)
    found = row.error("", f"{name} could not be fetched: {error.message}")
    found.platform_response = error.platform_response
    return found


def _to_preflight_error(error: ApiError) -> ApiError:
    return ApiError("preflight_failed", error.message, rule=error.rule, remediation=error.remediation)
