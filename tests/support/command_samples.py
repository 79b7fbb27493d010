"""Sample command line for every CLI command, for tests of their common behavior."""

from __future__ import annotations

from collections.abc import Iterator

import click

from socialpub.commands.click_types import CliCommand

ID = "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071"
LINES: dict[str, tuple[str, ...]] = {
    "migrate": (),
    "resume": (),
    "backup": ("every.zip",),
    "verify": ("every.zip",),
    "backups": (),
    "restore": ("every.zip",),
    "move": (),
    "status": (),
    "doctor": ("--offline",),
    "export": ("-",),
    "import": ("every.ndjson",),
    "keys rotate": (),
    "keys forget": ("--yes",),
    "config example": (),
    "org create": ("Acme",),
    "org rename": (ID, "Another name"),
    "org delete": (ID, "--yes"),
    "org list": (),
    "org show": (ID,),
    "org set-tier": (ID, "enterprise"),
    "profile create": ("A", "--org", ID),
    "profile list": ("--org", ID),
    "profile show": (ID,),
    "key create": ("--org", ID),
    "key revoke": (ID,),
    "key list": (),
    "key show": (ID,),
    "user create": ("--org", ID, "--email", "a@example.com", "--role", "owner"),
    "user set-password": ("--email", "a@example.com"),
    "user reset-totp": ("--email", "a@example.com"),
    "user list": (),
    "user show": ("a@example.com",),
    "account add": ("--profile", ID, "--platform", "threads", "--platform-account-id", "7"),
    "account list": (),
    "account show": (ID,),
    "account disconnect": (ID, "--yes"),
    "account connect bluesky": ("--profile", ID, "--handle", "alice.test"),
}
ELSEWHERE = {"serve", "demo", "simulator"}  # they wait, or have no database of theirs to open
STDIN = {
    "account add": '{"accessToken": "made-up"}',
    "account connect bluesky": "a password\n",
    "user create": "a long password\n",
    "user set-password": "a long password\n",
}


def command_names(group: click.Group, path: str = "") -> Iterator[tuple[str, CliCommand]]:
    """Yield every command on the database, by its words."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            yield from command_names(command, f"{path}{name} ")
        elif isinstance(command, CliCommand):
            yield path + name, command
