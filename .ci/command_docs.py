"""Print the commands over the API as JSON from their table, for /docs/commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from socialpub.commands import command_table
from socialpub.commands.click_types import COMMON_OPTIONS
from socialpub_client.commands.click_types import API_OPTIONS, ApiCommand
from socialpub_client.commands.exit_codes import MEANINGS

COMMON = {option.name for option in (*API_OPTIONS, *COMMON_OPTIONS)}
"""Options of every command: the page describes them once."""
METAVAR_MAX = 60


def list_commands(group: click.Group, context: click.Context, names: set[str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each command of these names, or of all without any; groups are opened."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or (names and name not in names):
            continue
        inner = click.Context(command, context, name)
        if isinstance(command, click.Group):
            yield from list_commands(command, inner, set())
        else:
            yield describe_command(command, inner)


def describe_command(command: click.Command, context: click.Context) -> dict[str, Any]:
    """Return a command's words, usage, arguments and options."""
    own = [each for each in command.params if each.name not in COMMON]
    records = [each.get_help_record(context) for each in own if isinstance(each, click.Option)]
    words = [_name_argument(each, context) for each in own if isinstance(each, click.Argument)]
    helps = [getattr(each, "help", "") or "" for each in own if isinstance(each, click.Argument)]
    return {
        "name": context.command_path.removeprefix("socialpub "),
        "usage": " ".join([context.command_path, *(["[OPTIONS]"] if records else []), *words]),
        "about": command.help,
        "arguments": [[word, about] for word, about in zip(words, helps, strict=True) if about],
        "options": [list(record) for record in records if record],
    }


def _name_argument(argument: click.Argument, context: click.Context) -> str:
    """Return the word for an argument in the usage: its choices, or its name where they are many."""
    word = argument.make_metavar(context)
    return word if len(word) < METAVAR_MAX else str(argument.name).upper()


def build_page_data() -> dict[str, Any]:
    """Return what the page shows."""
    root = command_table.build_root()
    context = click.Context(root, info_name="socialpub")
    names = {name for name, command in root.commands.items() if _is_of_the_api(command)}
    return {
        "commands": list(list_commands(root, context, names)),
        "common": [option.get_help_record(context) for option in API_OPTIONS if isinstance(option, click.Option)],
        "exitCodes": [[code, meaning] for code, meaning in MEANINGS.items()],
    }


def _is_of_the_api(command: click.Command) -> bool:
    commands = command.commands.values() if isinstance(command, click.Group) else [command]
    return any(isinstance(each, ApiCommand) for each in commands)


if __name__ == "__main__":
    print(json.dumps(build_page_data(), ensure_ascii=False, indent=1))
