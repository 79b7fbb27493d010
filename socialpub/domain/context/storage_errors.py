"""What a caller is told when the disk refuses."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from socialpub.base import troubles
from socialpub.base.errors import ApiError, refuse

log = logging.getLogger("socialpub.files")

FULL_RETRY_SECONDS = 60


def build_error(error: OSError) -> ApiError:
    """What a caller is told when the disk refuses; the log names the file too."""
    why = troubles.why(error)
    log.error("%s cannot be used: %s", error.filename or "the data folder", why)
    return refuse("storage.unavailable", f"Files cannot be used: {why}.", retry_after=FULL_RETRY_SECONDS)


@contextlib.contextmanager
def translate() -> Iterator[None]:
    """Whatever the disk refuses while the block runs is ApiError `storage.unavailable`."""
    try:
        yield
    except OSError as error:
        raise build_error(error) from error
