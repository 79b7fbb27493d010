"""Building blocks of the command table: what all commands on the database share."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import click

from socialpub_client.commands.click_types import UsageCommand, UsageGroup, argument, flag, merge_options, option


class CommandOptions(SimpleNamespace):
    """Parsed options: a field for each. `usage` raises a usage error. A call runs the command.

    A command may set `exit_code`, and `sentences`, printed instead of its result. `settings`: the file the settings
    were read from.
    """

    usage: Callable[[str], NoReturn]

    def __call__(self) -> int:
        """Run the command and return its exit code."""
        code: int = importlib.import_module("socialpub.commands.cli").run(self)
        return code


def file_argument(about: str = "") -> click.Argument:
    return argument("file", about, click.Path(path_type=Path))


# Valid before, after or between the words of any command.
COMMON_OPTIONS = (
    option("config", "the settings file  [default: ./socialpub.toml]", type=click.Path(path_type=Path)),
    flag("json", "one JSON value on standard output, for programs"),
    option("database", "the SQLite file  [default: as the settings say]"),
    option("data-dir", "media, key file and lock  [default: as the settings say]"),
)


class CliCommand(UsageCommand):
    """Command. `run`: its function, as `module.function` of this package.

    `act`: audit log name of a changing command, logged once its result has the field `done`.
    """

    def __init__(
        self,
        name: str,
        run: str,
        about: str,
        *parameters: click.Parameter,
        act: str = "",
        done: str = "id",
        sets: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(name, params=[*parameters, *COMMON_OPTIONS], help=about, short_help=about)
        self.run, self.act, self.done, self._sets = run, act, done, sets or {}

    def invoke(self, ctx: click.Context) -> CommandOptions:
        """Return the parsed options; `cli` runs the command."""

        def usage(message: str) -> NoReturn:
            raise click.UsageError(message, ctx)

        given = {"act": self.act, "done": self.done, "exit_code": 0, "sentences": None, "usage": usage}
        given |= self._sets | merge_options(ctx)
        return CommandOptions(run=self.load(), settings="", **given)

    def load(self) -> Callable[[CommandOptions], Any]:
        """Import the command's function."""
        module, name = self.run.split(".")
        found: Callable[[CommandOptions], Any] = getattr(importlib.import_module(f"socialpub.commands.{module}"), name)
        return found


class CommandGroup(UsageGroup):
    """Commands with a common first word, in table order."""

    def __init__(self, name: str, about: str, *commands: click.Command) -> None:
        super().__init__(name, list(commands), help=about, short_help=about, params=[*COMMON_OPTIONS])


class LazyGroup(CommandGroup):
    """Group whose commands are created when needed."""

    def __init__(self, name: str, about: str, make: Callable[[], Iterable[click.Command]]) -> None:
        super().__init__(name, about)
        self._make = make

    def list_commands(self, ctx: click.Context) -> list[str]:
        self._fill()
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        self._fill()
        return super().get_command(ctx, cmd_name)

    def _fill(self) -> None:
        if not self.commands:
            self.commands = {str(command.name): command for command in self._make()}
