"""The end of a process, whatever its threads are doing."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import NoReturn


def end(code: int) -> NoReturn:
    """End this process; whatever was said is written.

    Where threads are still at work it ends at once. Python's own end would go on beside them: it takes OpenSSL down
    while one of them reads certificates, which crashes, and it waits for calls that nobody needs any longer.
    """
    if threading.active_count() == 1:
        sys.exit(code)
    import logging  # help and versions are told without it

    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(code)
