"""Translation of OSError from the disk into the ApiError `storage.unavailable`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from socialpub.base.errors import ApiError, rule_error
from socialpub.base.system import os_errors

log = logging.getLogger("socialpub.files")

FULL_RETRY_SECONDS = 60


def build_error(error: OSError) -> ApiError:
    """Build the ApiError for a failed file operation, and log it with the file's name."""
    why = os_errors.describe(error)
    log.error("%s cannot be used: %s", error.filename or "the data folder", why)
    return rule_error("storage.unavailable", f"Files cannot be used: {why}.", retry_after=FULL_RETRY_SECONDS)


@contextlib.contextmanager
def translate() -> Iterator[None]:
    """Raise ApiError `storage.unavailable` for an OSError in the block."""
    try:
        yield
    except OSError as error:
        raise build_error(error) from error
