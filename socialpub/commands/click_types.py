"""Building blocks of the command table: click classes with what all our commands share.

Parsing a line imports nothing of the program: functions and choices are looked up when needed, so that `--version`,
`--help` and shell completion are fast.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class CommandOptions(SimpleNamespace):
    """Parsed options: a field for each. `usage` raises a usage error.

    A command may set `exit_code`, and `sentences`, printed instead of its result. `settings`: the file the settings
    were read from.
    """


class CommandHelpFormatter(click.HelpFormatter):
    """click's help formatter, with "usage:" in lower case."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, prefix or "usage: ")


class CommandContext(click.Context):
    formatter_class = CommandHelpFormatter


class LazyChoice(click.ParamType[str]):
    """Choice of words, looked up when needed."""

    name = "one of"

    def __init__(self, words: Callable[[], Iterable[str]]) -> None:
        self._words = words

    @property
    def _choice(self) -> click.Choice[str]:
        return click.Choice(list(self._words()))

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self._choice.get_metavar(param, ctx)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return self._choice.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return self._choice.shell_complete(ctx, param, incomplete)


def argument(name: str, about: str = "", type_: Any = None) -> click.Argument:
    """Create a positional argument."""
    return click.Argument([name], help=about, type=type_)


def option(name: str, about: str | Callable[[], str] = "", **more: Any) -> click.Option:
    """Create an option `--name`, with its default in the help."""
    return LazyHelpOption([f"--{name}"], about=about, show_default=not more.get("is_flag"), **more)


def flag(name: str, about: str) -> click.Option:
    return option(name, about, is_flag=True)


class LazyHelpOption(click.Option):
    """Option whose help may be looked up late."""

    def __init__(self, declared: Sequence[str], *, about: str | Callable[[], str], **more: Any) -> None:
        super().__init__(declared, **more)
        self._about = about

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        self.help = self._about if isinstance(self._about, str) else self._about()
        return super().get_help_record(ctx)


def file_argument(about: str = "") -> click.Argument:
    return argument("file", about, click.Path(path_type=Path))


def _common_options() -> list[click.Parameter]:
    """Create the options that are valid before, after or between the words of any command."""
    return [
        option("config", "the settings file  [default: ./socialpub.toml]", type=click.Path(path_type=Path)),
        flag("json", "one JSON value on standard output, for programs"),
        option("database", "the SQLite file  [default: as the settings say]"),
        option("data-dir", "media, key file and lock  [default: as the settings say]"),
    ]


class UsageCommand(click.Command):
    """Command whose usage errors show its own usage."""

    context_class = CommandContext

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise


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
        super().__init__(name, params=[*parameters, *_common_options()], help=about, short_help=about)
        self.run, self.act, self.done, self._sets = run, act, done, sets or {}

    def invoke(self, ctx: click.Context) -> CommandOptions:
        """Return the parsed options; `cli` runs the command."""

        def usage(message: str) -> None:
            raise click.UsageError(message, ctx)

        given = {"act": self.act, "done": self.done, "exit_code": 0, "sentences": None, "usage": usage}
        given |= self._sets | _merge_options(ctx)
        return CommandOptions(run=self.load(), settings="", **given)

    def load(self) -> Callable[[CommandOptions], Any]:
        """Import the command's function."""
        module, name = self.run.split(".")
        found: Callable[[CommandOptions], Any] = getattr(importlib.import_module(f"socialpub.commands.{module}"), name)
        return found


def _merge_options(ctx: click.Context) -> dict[str, Any]:
    """Merge the common options; the last one wins."""
    before = _merge_options(ctx.parent) if ctx.parent else {}
    return before | {name: value for name, value in ctx.params.items() if name not in before or value}


class CommandGroup(UsageCommand, click.Group):
    """Commands with a common first word, in table order."""

    def __init__(self, name: str, about: str, *commands: click.Command, **more: Any) -> None:
        params = [*more.pop("params", ()), *_common_options()]
        super().__init__(name, list(commands), help=about, short_help=about, params=params, **more)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


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
