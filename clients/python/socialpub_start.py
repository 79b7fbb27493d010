"""Start of the program `socialpub`: Ctrl-C ends it without a traceback, also while its packages are imported."""

import signal
from typing import NoReturn


def program() -> NoReturn:
    """Run one command as this process, and end it."""
    leave_interrupts_to_the_system()
    from socialpub_client.commands import cli

    cli.program()


def leave_interrupts_to_the_system() -> None:
    """Let Ctrl-C end the process until `cli.program` can tell of it; where it is ignored, it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
