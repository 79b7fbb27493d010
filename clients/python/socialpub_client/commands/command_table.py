"""Table of the commands over the API: their syntax and their functions, without logic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import click

from socialpub_client import __version__
from socialpub_client.apply import command_line
from socialpub_client.commands.click_types import ApiCommand, UsageGroup, api_options, flag, option

HEADING = "Commands over the API (--url, --key)"


@dataclass(frozen=True)
class CommandSet:
    """Commands that a package adds to the program.

    A command, invoked, returns a function that runs it and returns the exit code. `options` are valid before the first
    word too.
    """

    heading: str
    commands: Sequence[click.Command]
    options: Sequence[click.Parameter] = ()


def parse(arguments: Sequence[str] | None, sets: Iterable[CommandSet]) -> Callable[[], int] | None:
    """Parse the command line; None if only help, version or completion was printed.

    Raises click.UsageError for invalid input.
    """
    found = build_root(sets).main(arguments, prog_name="socialpub", standalone_mode=False)
    return found if callable(found) else None


def build_root(sets: Iterable[CommandSet]) -> ProgramGroup:
    """Build all commands with their options; common ones are valid before and after."""
    return ProgramGroup([CommandSet(HEADING, list(_commands()), api_options()), *sets])


class ProgramGroup(UsageGroup):
    """The program: its commands under a heading for each set. Two sets may not have one name."""

    def __init__(self, sets: Sequence[CommandSet]) -> None:
        commands = [command for each in sets for command in each.commands]
        twice = {command.name for command in commands if [other.name for other in commands].count(command.name) > 1}
        if twice:
            raise ValueError(f"commands with one name: {sorted(map(str, twice))}")
        options = {option.name: option for each in sets for option in each.options}
        about = "Publish to social platforms: once, on time, with proof."
        super().__init__(
            "socialpub", [*commands, HELP], help=about, short_help=about, params=[_version(), *options.values()]
        )
        self._sets = sets

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for each in self._sets:
            if each.commands:
                with formatter.section(each.heading):
                    formatter.write_dl([(str(one.name), one.get_short_help_str(200)) for one in each.commands])
        with formatter.section("Help"):
            formatter.write_dl([(str(HELP.name), HELP.get_short_help_str(200))])


def _version() -> click.Option:
    def tell(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted:
            click.echo(__version__)
            ctx.exit()

    return option(
        "version", "print the version and exit", is_flag=True, is_eager=True, expose_value=False, callback=tell
    )


def _tell_exit_codes() -> None:
    from socialpub_client.commands.exit_codes import MEANINGS

    for code, meaning in MEANINGS.items():
        click.echo(f"{code:>3}  {meaning}")


HELP = UsageGroup(
    "help",
    [click.Command("exit-codes", callback=_tell_exit_codes, help="list the exit codes and what they mean")],
    help="what is the same for every command",
    short_help="what is the same for every command: exit-codes",
)


def _commands() -> Iterator[click.Command]:
    yield command_line.build_command()
    yield ApiCommand(
        "mcp",
        "mcp_command.serve",
        "serve tools for assistants by the Model Context Protocol",
        option("http", "serve over HTTP; each request brings its own key", metavar="HOST:PORT"),
        option("media-root", "the folder whose files may be uploaded; not over HTTP", metavar="FOLDER"),
        flag("read-only", "only tools that read"),
        flag("no-ask", "publish plans without asking the user first"),
    )
