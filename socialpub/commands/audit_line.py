"""Audit line on standard error for every changing command: what was done, to what, by whom."""

from __future__ import annotations

import getpass
import logging
import os
import sys
from collections.abc import Mapping
from typing import Any

from socialpub.base.observability import redaction

log = logging.getLogger("socialpub.commands")
_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
# Ids only, never a name or secret.
_LOGGED_FIELDS = (
    "id",
    "organizationId",
    "profileId",
    "platform",
    "role",
    "from",
    "to",
    "was",
    "keyId",
    "file",
    "database",
)


def write(action: str, result: Mapping[str, Any], settings: str) -> None:
    """Write the audit line in a server log format. `settings`: file they were read from."""
    fields = ", ".join(f"{name} {result[name]}" for name in _LOGGED_FIELDS if result.get(name) is not None)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(redaction.TextLogFormatter(_FORMAT))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        log.info("%s: %s, by command of %s, settings read from %s", action, fields, _find_user(), settings)
    finally:
        log.removeHandler(handler)


def _find_user() -> str:
    """Return the user name of the terminal."""
    try:
        return ascii(getpass.getuser())[1:-1]
    except (ImportError, KeyError, OSError):
        return f"user {os.getuid()}"
