"""Commands on the database as a part of the program `socialpub`, which is the client's.

Exit codes: 0 done, 1 failed, 2 usage, 3 refused by the rules, 4 authentication, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from typing import NoReturn

import click

from socialpub.base.security import private_files
from socialpub.commands import command_table
from socialpub.commands.click_types import CommandOptions
from socialpub_client.commands import cli as client_cli
from socialpub_client.commands.command_table import CommandSet
from socialpub_client.commands.exit_codes import INTERRUPTED


def program() -> NoReturn:
    """Run one command as this process, and end it."""
    client_cli.program([build_command_set()])


def build_command_set() -> CommandSet:
    """Build these commands for the program: its entry point of the group `socialpub.commands`."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # else pydantic scans all packages for plugins
    return command_table.build_command_set()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    return client_cli.main(arguments, [build_command_set()])


def run(options: CommandOptions) -> int:
    """Run a parsed command on the database and return its exit code."""
    private_files.set_umask()
    from socialpub.commands import runner  # imports the whole program: not needed for help and version

    if not gc.isenabled():
        gc.freeze()  # imported objects stay
        gc.enable()
    try:
        return runner.run(options)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
