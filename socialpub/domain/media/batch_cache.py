"""Media of running batches that this server does not store: by URL or inline."""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.errors import ApiError, Outcome, rule_error
from socialpub.base.http import UnreadReason
from socialpub.base.security import private_files
from socialpub.domain.context import storage_errors
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import files, non_media_responses, probe
from socialpub.domain.media.run_directory import RunDirectory
from socialpub.domain.schemas.errors import UpstreamAnswer
from socialpub.platforms.contract import MediaFacts

FETCH_SECONDS = 120.0
FAILURE_TTL_SECONDS = 60.0
CLEANUP_SECONDS = 3600.0
VALIDATION_PREFIX = "validate-"


@dataclass
class _CachedMedia:
    """Cached file of a batch: made once while other threads wait."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    facts: MediaFacts | None = None
    non_media: str | None = None
    error: ApiError | None = None
    failed_at: float = 0.0
    future: concurrent.futures.Future[None] | None = None


class BatchMediaCache:
    """Cache that fetches and measures each URL once per batch, until its last target settles."""

    def __init__(self, service: AppContext) -> None:
        self._service = service
        self._entries: dict[str, dict[str, _CachedMedia]] = defaultdict(dict)
        self._organizations: dict[str, str] = {}
        self._guard = threading.Lock()
        self._folder = RunDirectory(service.runtime.settings.data_dir / "fetched", service.process.run)
        self._cleaned_at: float | None = None

    def set_organization(self, batch: str, organization: str) -> None:
        """Set the organization whose share the batch's files are read in."""
        self._organizations[batch] = organization

    def get(self, batch: str, url: str) -> tuple[Path, MediaFacts]:
        """Return the file of a URL with its facts.

        Raises ApiError from the guarded client (upstream status in `platform_response`) or from probing.
        """
        return self._get_or_make(batch, _file_name(url), lambda path: self._fetch(url, path))

    def start_fetch(self, batch: str, url: str) -> concurrent.futures.Future[None]:
        """Fetch a URL in the pool for user-chosen addresses, in its organization's share.

        Once the future is done, `get` is quick. Raises RuntimeError while the server stops.
        """
        with self._guard:
            entry = self._entries[batch].setdefault(_file_name(url), _CachedMedia())
            if entry.future is None or (entry.future.done() and not self._is_known(entry)):
                share = ShareKey(urlsplit(url).netloc.lower(), self._organizations.get(batch, batch))
                entry.future = self._service.executors.custom_hosts.submit_for(share, self._fetch_quietly, batch, url)
            return entry.future

    def _fetch_quietly(self, batch: str, url: str) -> None:
        try:
            self.get(batch, url)
        except ApiError:
            """Stored in the entry; `get` raises it."""

    def _is_known(self, entry: _CachedMedia) -> bool:
        return entry.facts is not None or self._has_just_failed(entry)

    def _has_just_failed(self, entry: _CachedMedia) -> bool:
        return (
            entry.error is not None and self._service.runtime.clock.monotonic() - entry.failed_at < FAILURE_TTL_SECONDS
        )

    def add_inline(self, batch: str, inline: Mapping[str, files.IncomingFile]) -> None:
        """Add the inline files of a request to the batch."""
        for name, arriving in inline.items():
            path = self._make(batch) / name
            try:
                os.link(arriving.path, path)
            except OSError:  # the media folder is on another disk
                private_files.copy(arriving.path, path)

    def get_inline(self, batch: str, name: str) -> tuple[Path, MediaFacts]:
        """Return an added file with its facts. Raises ApiError from probing."""
        return self._get_or_make(batch, name, _raise_missing)

    def list_batches(self) -> list[str]:
        """List the batches with files here, except those only being validated."""
        return [
            name for name in self._folder.names() if not (name.startswith(VALIDATION_PREFIX) and name in self._entries)
        ]

    def drop(self, batch: str) -> None:
        """Delete the files of a settled batch."""
        with self._guard:
            self._entries.pop(batch, None)
            self._organizations.pop(batch, None)
        self._folder.drop(batch)

    def adopt(self) -> None:
        """Take over the files of ended runs, whose batches continue here."""
        with contextlib.suppress(ApiError), storage_errors.translate():  # logged; the next sweep retries
            self._folder.adopt()

    def close(self) -> None:
        """Release the folder at the end of the run."""
        self._folder.close()

    def clean_up_hourly(self) -> None:
        """Remove unreferenced stored files, at the first call and then hourly."""
        now = self._service.runtime.clock.monotonic()
        if self._cleaned_at is None or now - self._cleaned_at >= CLEANUP_SECONDS:
            self._cleaned_at = now
            files.clean_up(self._service)

    def _get_or_make(self, batch: str, name: str, make: Callable[[Path], str | None]) -> tuple[Path, MediaFacts]:
        with self._guard:
            entry = self._entries[batch].setdefault(name, _CachedMedia())
        path = self._folder.get_path(batch) / name
        with entry.lock:
            if entry.error and self._has_just_failed(entry):
                raise entry.error
            try:
                if not path.exists():
                    self._make(batch)
                    entry.non_media = make(path)
                entry.facts = entry.facts or _measure(path, self._organizations.get(batch, batch), entry.non_media)
            except ApiError as error:
                entry.error, entry.failed_at = error, self._service.runtime.clock.monotonic()
                raise
            return path, entry.facts

    def _fetch(self, url: str, path: Path) -> str | None:
        """Download to the file; return a description of non-media content, None for media."""
        runtime = self._service.runtime
        most = runtime.settings.media.max_bytes
        with runtime.open_http(runtime.http_policy(guarded=True)) as http, files.IncomingFile(path.parent) as arriving:
            reply = http.download(url, arriving, max_bytes=most, timeout=FETCH_SECONDS)
            if not reply.is_success:
                detail: UpstreamAnswer = {"status": reply.status_code, "url": url}
                raise ApiError("preflight_failed", non_media_responses.describe_status(reply), platform_response=detail)
            if reply.unread is UnreadReason.TOO_LARGE:
                raise rule_error("media.size_max")
            if reply.unread:
                message = f"The address answered, but the file {reply.unread}."
                raise ApiError("platform_unavailable", message, outcome=Outcome.NOT_SENT)
            arriving.finish()
            arriving.move_to(path)
        return None if probe.sniff(arriving.head) else non_media_responses.describe_content(url, reply, path)

    def _make(self, batch: str) -> Path:
        with storage_errors.translate():
            return self._folder.make(batch)


def _file_name(url: str) -> str:
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()


def _raise_missing(path: Path) -> str | None:
    raise FileNotFoundError(path)


def _measure(path: Path, owner: str, non_media: str | None) -> MediaFacts:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return probe.measure(path, sha256, owner) or MediaFacts(
        probe.UNKNOWN_TYPE, path.stat().st_size, sha256, non_media=non_media
    )
