"""Execution of a plan: its calls in order; a stopped run is followed by another one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from socialpub_client import Media, OutcomeUnknown, Socialpub, SocialpubError, Target
from socialpub_client.apply.calendar import Calendar, MediaEntry
from socialpub_client.apply.planner import CalendarPlan, Cancel, Change, Create, Edit, Step
from socialpub_client.commands.runner import writing
from socialpub_client.content import guess_kind
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
            for step in change.steps:
                _perform(sp, files, plan.calendar, step)
        except SocialpubError as error:
            yield Outcome(change, error)
            if error.status not in (400, 409, 412, 404) or isinstance(error, OutcomeUnknown):
                return
        else:
            yield Outcome(change)


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
        """Upload a file. Two runs at once upload it once: the key is its hash."""
        path = Path(item.file or "")
        uploaded = self._sp.media.upload(path, idempotency_key=f"file@{item.sha256}")
        if self._sp.media.find(sha256=uploaded.sha256) is not None:
            return uploaded
        return self._sp.media.upload(path)  # the first one was deleted since; that answer was a repetition
