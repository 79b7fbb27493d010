"""Files that are written whole: a crash leaves the old content or the new one."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; a link stays, and leads to it. Raises OSError.

    A pipe or a device, such as /dev/null, is written to and not replaced.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "wb") as device:
                device.write(content)
            return
    path = Path(os.path.realpath(path))
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    except OSError as error:
        error.filename = str(path)  # not that of the temporary file
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):  # Ctrl-C may come when it is in its place already
            os.unlink(temporary)
        raise
