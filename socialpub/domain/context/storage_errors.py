"""What a caller is told when the disk refuses."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from socialpub.base.errors import ApiError, rule_error
from socialpub.base.system import os_errors

log = logging.getLogger("socialpub.files")

FULL_RETRY_SECONDS = 60


def build_error(error: OSError) -> ApiError:
    """What a caller is told when the disk refuses; the log names the file too."""
    why = os_errors.describe(error)
    log.error("%s cannot be used: %s", error.filename or "the data folder", why)
    return rule_error("storage.unavailable", f"Files cannot be used: {why}.", retry_after=FULL_RETRY_SECONDS)


@contextlib.contextmanager
def translate() -> Iterator[None]:
    """Whatever the disk refuses while the block runs is ApiError `storage.unavailable`."""
    try:
        yield
    except OSError as error:
        raise build_error(error) from error
