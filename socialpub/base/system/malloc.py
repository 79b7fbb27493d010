"""Return unused heap memory to the system.

glibc keeps memory that threads have freed in arenas; with many threads, after months that is most of the process's
memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable


def _find_malloc_trim() -> Callable[[int], int] | None:
    """Return glibc's `malloc_trim`; None in other C libraries."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return trim


_trim = _find_malloc_trim()


def trim() -> None:
    """Trim the heap: about a millisecond, without the interpreter lock."""
    if _trim:
        _trim(0)
