"""Building blocks of command tables: click classes with what all commands share.

Parsing a line imports no command: functions and choices are looked up when needed, so that `--version`, `--help` and
shell completion are fast.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class CommandHelpFormatter(click.HelpFormatter):
    """click's help formatter, with "usage:" in lower case."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, prefix or "usage: ")


class CommandContext(click.Context):
    """click's context, with that formatter."""

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


def argument(name: str, about: str = "", type_: Any = None, **more: Any) -> click.Argument:
    """Create a positional argument."""
    return click.Argument([name], help=about, type=type_, **more)


def option(name: str, about: str | Callable[[], str] = "", *, short: str = "", **more: Any) -> click.Option:
    """Create an option `--name`, with its default in the help; `short`: its letter."""
    declared = [f"-{short}", f"--{name}"] if short else [f"--{name}"]
    return LazyHelpOption(declared, about=about, show_default=not more.get("is_flag"), **more)


def flag(name: str, about: str) -> click.Option:
    """Create an option without a value."""
    return option(name, about, is_flag=True)


class LazyHelpOption(click.Option):
    """Option whose help may be looked up late."""

    def __init__(self, declared: Sequence[str], *, about: str | Callable[[], str], **more: Any) -> None:
        super().__init__(declared, **more)
        self._about = about

    def get_error_hint(self, ctx: click.Context | None) -> str:
        return " or ".join(f"'{name}'" for name in (*self.opts, *self.secondary_opts))

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        self.help = self._about if isinstance(self._about, str) else self._about()
        return super().get_help_record(ctx)


class UsageCommand(click.Command):
    """Command whose usage errors show its own usage."""

    context_class = CommandContext

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise


class UsageGroup(UsageCommand, click.Group):
    """Commands with a common first word, in table order."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def merge_options(ctx: click.Context) -> dict[str, Any]:
    """Merge the options of a command and of the words before it; the last one wins."""
    before = merge_options(ctx.parent) if ctx.parent else {}
    return before | {name: value for name, value in ctx.params.items() if name not in before or value}


# --- Commands over the API -----------------------------------------------------------------------------------------


class ApiOptions(SimpleNamespace):
    """Parsed options of a command: a field for each. `usage` raises a usage error."""

    def usage(self, message: str) -> NoReturn:
        raise click.UsageError(message, self.context)


API_OPTIONS = (
    option("url", "the server  [env var: SOCIALPUB_URL]"),
    option("key", "an API key  [env var: SOCIALPUB_KEY]"),
    option("server", "a server that `socialpub login NAME` has stored", metavar="NAME"),
    flag("json", "one JSON value on standard output, for programs; lists: one a line"),
    flag("quiet", "nothing on standard error but errors"),
)


def repeat_option() -> click.Option:
    """Create the option for the key of a request whose outcome is unknown."""
    return option("idempotency-key", "repeat a request whose outcome is unknown with its key", metavar="KEY")


class ApiCommand(UsageCommand):
    """Command over the API. `run`: its function, as `module.function` of the package."""

    def __init__(
        self, name: str, run: str, about: str, *parameters: click.Parameter, package: str = "socialpub_client.commands"
    ) -> None:
        own = {parameter.name for parameter in parameters}
        common = [parameter for parameter in API_OPTIONS if parameter.name not in own]
        super().__init__(name, params=[*parameters, *common], help=about, short_help=about)
        self.run, self._package = run, package

    def invoke(self, ctx: click.Context) -> Callable[[], int]:
        """Return what runs the command with the parsed options, and returns its exit code."""
        return partial(self._run, ApiOptions(context=ctx, **merge_options(ctx)))

    def load(self) -> Callable[[ApiOptions], Any]:
        """Import the command's function."""
        module, name = self.run.split(".")
        function: Callable[[ApiOptions], Any] = getattr(importlib.import_module(f"{self._package}.{module}"), name)
        return function

    def _run(self, options: ApiOptions) -> int:
        from socialpub_client.commands import runner  # imports the HTTP client: not needed for help and version

        command = self.load()
        gc.enable()  # `cli.program` disables it for the imports; some commands run for months
        return runner.run(command, options)


class ApiGroup(UsageGroup):
    """Commands over the API with a common first word."""

    def __init__(self, name: str, about: str, *commands: click.Command) -> None:
        super().__init__(name, list(commands), help=about, short_help=about, params=[*API_OPTIONS])
