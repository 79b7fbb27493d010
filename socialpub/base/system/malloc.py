"""What the process does not use any more goes back to the machine.

glibc keeps what threads have freed, in arenas of their own: with many threads, after months that is most of what the
process has, though nothing of it is used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable


def _find_malloc_trim() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`; None where the C library has none."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return trim


_trim = _find_malloc_trim()


def trim() -> None:
    """A millisecond or so, in which other threads go on."""
    if _trim:
        _trim(0)
