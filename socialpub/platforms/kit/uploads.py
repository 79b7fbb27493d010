"""File uploads, read while sending: slices of a file, bare or in a form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

from socialpub.base.errors import ApiError, Outcome
from socialpub.platforms.contract import DraftMedia, is_on_domain

_READ = 1 << 18


@dataclass(frozen=True)
class FileSlice:
    """Bytes [start, end) of a file; each iteration starts over."""

    path: Path
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def __iter__(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            file.seek(self.start)
            left = self.size
            while left > 0 and (chunk := file.read(min(_READ, left))):
                left -= len(chunk)
                yield chunk


def is_progress_usable(error: ApiError) -> bool:
    """Return whether an upload can continue later: after a rate limit, or a refreshed token.

    Progress must be stored (`Pending`) before such an error is raised; the step is then repeated first.
    """
    return error.stale_token or error.outcome is Outcome.THROTTLED


def is_own_host(url: str, domain: str, configured: str) -> bool:
    """Return whether an upload URL may get the token.

    It is on the platform's domain, or on the host that is configured instead.
    """
    given, ours = urlsplit(url), urlsplit(configured)
    return is_on_domain(url, domain) or (given.scheme, given.netloc) == (ours.scheme, ours.netloc)


def whole_file(item: DraftMedia) -> FileSlice:
    return FileSlice(item.file, 0, item.file.stat().st_size)


def build_form(
    fields: Mapping[str, object], name: str, part: FileSlice, content_type: str, nonce: int, filename: str = "media"
) -> tuple[dict[str, str], Iterable[bytes]]:
    """Build headers and content of a form (RFC 7578) whose last field, `name`, is a file slice."""
    boundary = f"socialpub-{nonce:016x}"
    opening = f"--{boundary}\r\nContent-Disposition: form-data; name="
    texts = "".join(f'{opening}"{field}"\r\n\r\n{value}\r\n' for field, value in fields.items())
    file = f'{opening}"{name}"; filename="{filename}"\r\nContent-Type: {content_type}\r\n\r\n'
    head, tail = (texts + file).encode("utf-8", "replace"), f"\r\n--{boundary}--\r\n".encode()
    headers = {
        "Content-Type": f"multipart/form-data; boundary={boundary}",
        "Content-Length": str(len(head) + part.size + len(tail)),
    }
    return headers, chain((head,), part, (tail,))
