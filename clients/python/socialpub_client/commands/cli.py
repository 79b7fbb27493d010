"""Entry point of the program `socialpub`: parse, run, return the exit code.

Packages add commands by the entry point group `socialpub.commands`: each entry point is a function that returns a
`CommandSet`. The server's is one.
"""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

import click

from socialpub_client.commands import command_table, process_exit
from socialpub_client.commands.command_table import CommandSet
from socialpub_client.commands.exit_codes import DONE, INTERRUPTED

GROUP = "socialpub.commands"


def program(sets: Iterable[CommandSet] | None = None) -> NoReturn:
    """Run one command as this process, and end it.

    `sets`: the commands beside those over the API; default, those of the installed packages.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":  # None where it is closed
            stream.reconfigure(encoding="utf-8")  # as JSON is; texts of posts are beyond most other encodings
    gc.disable()  # until all is imported: collections during imports take a sixth of the startup
    process_exit.exit_now(main(None, load_installed() if sets is None else sets))


def load_installed() -> list[CommandSet]:
    """Load the commands that installed packages add, in the order of their names."""
    from importlib.metadata import entry_points  # not needed where the caller names the sets

    return [entry.load()() for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)]


def main(arguments: Sequence[str] | None, sets: Iterable[CommandSet]) -> int:
    """Run one command and return its exit code."""
    try:
        invocation = command_table.parse(arguments, sets)
        return DONE if invocation is None else invocation()
    except click.UsageError as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
