"""End of the process, even with busy threads."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import NoReturn


def exit_now(code: int) -> NoReturn:
    """End this process after flushing its output.

    With busy threads it exits at once. A regular exit would run beside them: it unloads OpenSSL while a thread reads
    certificates, which crashes, and waits for calls whose results are no longer needed.
    """
    if threading.active_count() == 1:
        sys.exit(code)
    import logging  # not needed for help and version

    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the reader is gone
            stream.flush()
    os._exit(code)
