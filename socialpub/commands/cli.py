"""One command: what was typed is understood, done and shown.

Exit codes: 0 done, 1 failed, 2 usage, 3 refused by the rules, 4 authentication.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from typing import NoReturn

import click

from socialpub.base import private
from socialpub.commands import ending, table
from socialpub.commands.parts import Options

DONE, FAILED = 0, 1


def program() -> NoReturn:
    """Run one command as this process, and end it."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # or it looks through every installed package for some
    gc.disable()  # until all is imported: it would look through that again and again, a sixth of a start
    ending.end(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    private.begin()
    try:
        options = table.parsed(arguments)
        return DONE if options is None else _done(options)
    except click.UsageError as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return FAILED


def _done(options: Options) -> int:
    from socialpub.commands import doing  # with all of the program: help and versions are told without it

    if not gc.isenabled():
        gc.freeze()  # what was imported stays
        gc.enable()
    return doing.do(options)
