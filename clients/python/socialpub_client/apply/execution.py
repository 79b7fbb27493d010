"""Execution of a plan: its calls in order; a stopped run is followed by another one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from socialpub_client import InvalidArgument, Media, OutcomeUnknown, Socialpub, SocialpubError, Target
from socialpub_client.apply.calendar import Calendar, MediaEntry
from socialpub_client.apply.planner import CalendarPlan, Cancel, Change, Create, Edit, Step
from socialpub_client.commands.runner import writing
from socialpub_client.content import guess_kind
from socialpub_client.error_kinds import REFUSED, classify
from socialpub_client.models import MediaFile


@dataclass(frozen=True)
class Outcome:
    """Result of one change: done, or the error that ended it."""

    change: Change
    error: SocialpubError | None = None


def apply_plan(sp: Socialpub, plan: CalendarPlan) -> Iterator[Outcome]:
    """Apply the changes of a plan that can be, in order; yield the outcome of each.

    An error that says something of all (no connection, a wrong key, an unknown outcome) ends it.
    """
    files = _UploadedFiles(sp)
    for change in plan.changes:
        if not change.steps:
            continue
        try:
            for step in change.steps:  # before one of them cancels what another one replaces
                files.store(_list_media(step))
            for step in change.steps:
                _perform(sp, files, plan.calendar, step)
        except SocialpubError as error:
            yield Outcome(change, error)
            if isinstance(error, OutcomeUnknown) or not _is_of_one(error):
                return
        else:
            yield Outcome(change)


def _is_of_one(error: SocialpubError) -> bool:
    """Return whether an error is of one entry's content, not of the key or the quota."""
    return isinstance(error, InvalidArgument) or (error.status not in (None, 402) and classify(error) is REFUSED)


def _list_media(step: Step) -> Sequence[MediaEntry]:
    match step:
        case Create():
            return [item for content in step.targets.values() for item in content.media]
        case Edit():
            return step.media or ()
        case Cancel():
            return ()


def _perform(sp: Socialpub, files: _UploadedFiles, calendar: Calendar, step: Step) -> None:
    key = step.key if isinstance(step, Create) else str(uuid.uuid4())
    with writing(key):
        match step:
            case Create():
                targets = [
                    Target(account, text=content.text, media=files.store(content.media), options=content.options)
                    for account, content in step.targets.items()
                ]
                name = calendar.external_id(step.entry.id)
                sp.posts.publish(to=targets, at=step.at, external_id=name, idempotency_key=key, wait=0)
            case Edit(post, etag, text, media, options, at):
                stored = None if media is None else files.store(media)
                sp.posts.edit(post, text=text, media=stored, options=options, at=at, if_match=etag, idempotency_key=key)
            case Cancel(post, etag):
                sp.posts.cancel(post, if_match=etag, idempotency_key=key)


class _UploadedFiles:
    """Files at the server: each is uploaded once, by its hash."""

    def __init__(self, sp: Socialpub) -> None:
        self._sp = sp
        self._stored: dict[str, MediaFile] = {}

    def store(self, media: Sequence[MediaEntry]) -> list[Media]:
        """Return media items whose files are at the server."""
        return [self._item(item) for item in media]

    def _item(self, item: MediaEntry) -> Media:
        if item.sha256 is None:
            return Media(id=item.id, url=item.url, alt=item.alt, kind=guess_kind(item.url) if item.url else None)
        if item.sha256 not in self._stored:
            self._stored[item.sha256] = self._sp.media.find(sha256=item.sha256) or self._upload(item)
        stored = self._stored[item.sha256]
        return Media(id=stored.id, alt=item.alt, kind=stored.kind)

    def _upload(self, item: MediaEntry) -> MediaFile:
        """Upload a file, as it was planned. Two runs at once upload it once: the key is its hash."""
        path, key = Path(item.file or ""), f"file@{item.sha256}"
        _check_file(path, item, _hash(path))
        with writing(key):
            uploaded = self._sp.media.upload(path, idempotency_key=key)
            if self._sp.media.find(sha256=uploaded.sha256) is None:
                uploaded = self._sp.media.upload(path)  # the first one was deleted since; that was its answer again
        _check_file(path, item, uploaded.sha256)
        return uploaded


def _hash(path: Path) -> str | None:
    try:
        return MediaEntry.of_file(path, None).sha256
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from error


def _check_file(path: Path, item: MediaEntry, sha256: str | None) -> None:
    """Raise InvalidArgument unless a file is what it was when the plan was made."""
    if sha256 != item.sha256:
        raise InvalidArgument(f"{path} has changed since the plan was made", remediation="Run it again.")
