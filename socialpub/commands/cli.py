"""Entry point: parse the command line, run the command, show the result.

Exit codes: 0 done, 1 failed, 2 usage, 3 refused by the rules, 4 authentication.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from typing import NoReturn

import click

from socialpub.base.security import private_files
from socialpub.commands import command_table, process_exit
from socialpub.commands.click_types import CommandOptions

DONE, FAILED = 0, 1


def program() -> NoReturn:
    """Run one command as this process, and end it."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # else pydantic scans all packages for plugins
    gc.disable()  # until all is imported: collections during imports take a sixth of the startup
    process_exit.exit_now(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    private_files.set_umask()
    try:
        options = command_table.parse(arguments)
        return DONE if options is None else _done(options)
    except click.UsageError as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return FAILED


def _done(options: CommandOptions) -> int:
    from socialpub.commands import runner  # imports the whole program: not needed for help and version

    if not gc.isenabled():
        gc.freeze()  # imported objects stay
        gc.enable()
    return runner.run(options)
