"""Entry point of the program `socialpub`: parse, run, return the exit code.

Packages add commands by the entry point group `socialpub.commands`: each entry point is a function that returns a
`CommandSet`. The server's is one.
"""

from __future__ import annotations

import functools
import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

import click

from socialpub_client.commands import command_table, process_exit
from socialpub_client.commands.command_table import CommandSet
from socialpub_client.commands.exit_codes import DONE, FAILED, INTERRUPTED

GROUP = "socialpub.commands"
COMPLETION = "_SOCIALPUB_COMPLETE"  # by which click is asked to complete


def program(sets: Iterable[CommandSet] | None = None) -> NoReturn:
    """Run one command as this process, and end it.

    `sets`: the commands beside those over the API; default, those of the installed packages.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":  # None where it is closed
            stream.reconfigure(encoding="utf-8")  # as JSON is; texts of posts are beyond most other encodings
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # of `socialpub_start`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # until all is imported: collections during imports take a sixth of the startup
    code = main(None, sets)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command is done
    process_exit.exit_now(code)


def load_installed() -> list[CommandSet]:
    """Load the commands that installed packages add, in the order of their names."""
    from importlib.metadata import entry_points  # not needed where the caller names the sets

    return [entry.load()() for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)]


def main(arguments: Sequence[str] | None, sets: Iterable[CommandSet] | None) -> int:
    """Run one command and return its exit code."""
    try:
        invocation = _parse(arguments, load_installed() if sets is None else sets)
        return DONE if invocation is None else invocation()
    except click.UsageError as error:
        _show_usage(error, as_json="--json" in (sys.argv if arguments is None else arguments))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED


def _parse(arguments: Sequence[str] | None, sets: Iterable[CommandSet]) -> Callable[[], int] | None:
    """Parse the command line, and print help. Return None, or what ends the command."""
    try:
        return command_table.parse(arguments, sets)
    except OSError as error:
        return functools.partial(_report_lost_output, error)
    except SystemExit as ended:  # click's, after completion, and where the reader of help has gone
        if ended.code and COMPLETION in os.environ:
            raise click.UsageError(f"{COMPLETION} is bash_source, zsh_source or fish_source") from None
        return None
    except (KeyError, ValueError):
        if os.environ.get(COMPLETION):
            raise click.UsageError(f"{COMPLETION}: the shell's words are missing") from None
        raise


def _report_lost_output(error: OSError) -> int:
    from socialpub_client.commands.runner import drop_output  # imports the HTTP client, as below

    drop_output(error)
    return FAILED


def _show_usage(error: click.UsageError, *, as_json: bool) -> None:
    from socialpub_client.commands.runner import print_error, tell_error

    if as_json:
        print_error({"error": {"code": "usage", "message": error.format_message()}})
    text = io.StringIO()
    error.show(text)
    tell_error(text.getvalue().rstrip("\n"))
