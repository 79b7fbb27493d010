"""Syntax of `socialpub apply`; nothing is imported to parse it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from socialpub_client.commands.click_types import ApiCommand, ApiOptions, argument, flag, option

INPUT = click.Path(exists=True, dir_okay=False, path_type=Path)
FILE = click.Path(path_type=Path)


class ApplyCommand(ApiCommand):
    """The command `apply`: `--check` may stand alone, or be `--check=changes`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--check=rules" if each == "--check" else each for each in args])

    def load(self) -> Callable[[ApiOptions], Any]:
        from socialpub_client.apply import command  # imports the HTTP client: not needed for help

        return command.apply


def build_command() -> click.Command:
    """Create the command."""
    return ApplyCommand(
        "apply",
        "",
        "make the queued posts of a calendar what its files say (YAML or CSV), or apply a plan (plan.json)",
        argument("files", type_=INPUT, nargs=-1, required=True),
        option(
            "check",
            "only plan; exit code 3 where a rule breaks. --check=changes: 5 where something would change",
            type=click.Choice(("rules", "changes")),
        ),
        option("out", "write the plan to this file instead of applying it", type=FILE),
        flag("prune", "cancel queued posts of the calendar that its files do not have"),
        option("late", "what to do with new posts whose time has passed", type=click.Choice(("publish",))),
    )
