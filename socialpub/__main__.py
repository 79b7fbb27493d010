"""`python -m socialpub` is the same program as the `socialpub` command, and what the one-file binary runs."""

import sys
from typing import NoReturn

from socialpub.base.system import pyinstaller


def begin() -> NoReturn:
    """Run the program, or, in a process of the binary that opens a media file, only what that takes."""
    if pyinstaller.is_binary():
        pyinstaller.enable_packed_imports()
        if sys.argv[1:2] == [pyinstaller.READ_MEDIA_ARGUMENT]:
            from socialpub.domain.media import probe_worker

            probe_worker.main(*sys.argv[2:])
            sys.exit()
        pyinstaller.prepare_process()
    from socialpub.commands.cli import program

    program()


if __name__ == "__main__":
    begin()
