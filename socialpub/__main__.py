"""Entry point of `python -m socialpub` and of the one-file binary."""

import sys
from typing import NoReturn

from socialpub_start import leave_interrupts_to_the_system


def begin() -> NoReturn:
    """Run the command line, or the media reader where the binary was started for that."""
    leave_interrupts_to_the_system()
    from socialpub.base.system import pyinstaller

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
