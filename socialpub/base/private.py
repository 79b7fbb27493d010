"""Files are their owner's alone, whatever the system's defaults: who may open a lock file can stop all writing."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path

OTHERS = 0o077
log = logging.getLogger("socialpub.files")


def begin() -> None:
    """Whatever this process makes from here on is for its own user: first thing in every command."""
    os.umask(OTHERS)


def tighten(paths: Iterable[Path]) -> str | None:
    """Take from others what they may do with files that are there, a line in the log each.

    Answers why one of them cannot be used: it is another user's.
    """
    for path in paths:
        try:
            found = path.stat()
        except OSError:
            continue  # not there, or told by whoever opens it
        if not _is_ours(found):
            return f"{path} belongs to another user (number {found.st_uid}); run socialpub as that user"
        if stat.S_IMODE(found.st_mode) & OTHERS:
            _close(path, stat.S_IMODE(found.st_mode))
    return None


def _close(path: Path, mode: int) -> None:
    try:
        path.chmod(mode & ~OTHERS)
    except OSError as error:
        log.warning("%s can be used by other users, and that cannot be changed: %s", path, error.strerror)
    else:
        log.warning("%s could be used by other users (mode %03o); now it is for its owner alone", path, mode)


def _is_ours(found: os.stat_result) -> bool:
    return os.geteuid() in (0, found.st_uid)


def trouble(path: Path, secrets: Iterable[str]) -> str | None:
    """Why a file of settings is not to be trusted, in words that follow its name; None where it is.

    `secrets`: the settings in it that are secret. Its group may read it: the usual way to hand one to a service.
    """
    found, named = path.stat(), ", ".join(secrets)
    if not _is_ours(found) and found.st_uid != 0:
        return f"the settings file belongs to another user (number {found.st_uid})"
    if stat.S_ISREG(found.st_mode) and named and found.st_mode & (stat.S_IWGRP | stat.S_IRWXO):
        return f"the settings file holds secrets ({named}) and is open to other users; run: chmod 600 {path}"
    return None
