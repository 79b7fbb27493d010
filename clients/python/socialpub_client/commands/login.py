"""`socialpub login`, `whoami`, `logout`: stored servers and their keys."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

from socialpub_client import atomic_files, servers
from socialpub_client.client import Socialpub
from socialpub_client.commands.click_types import ApiOptions
from socialpub_client.commands.runner import Output, check_can_ask, connect, is_terminal, read_stdin
from socialpub_client.servers import Server

Json = dict[str, Any]


def login(options: ApiOptions) -> Output:
    """Check a key at its server, and store both."""
    name = options.name or servers.DEFAULT
    if not name.isprintable():
        options.usage("NAME has characters that cannot be shown")
    url = options.url or os.environ.get("SOCIALPUB_URL")
    if not url:
        options.usage("give --url: the address of the server")
    key = options.key or _ask_key(options)
    if not key:  # else the environment's would be checked, and this one stored
        options.usage("the key is empty")
    with Socialpub(url, key) as client:
        caller = dict(client.me().raw)
    path = servers.servers_file()
    with _changing(path) as stored:
        stored[name] = Server(url, key)
    return Output(caller, lines=_format_caller, wrote=True, notes=[f"stored as {name} in {path}"])


def _ask_key(options: ApiOptions) -> str:
    """Ask for the key without showing it, or read it where standard input is no terminal."""
    if not is_terminal(sys.stdin):
        return read_stdin(options).strip()
    check_can_ask(options, "pipe the key into standard input")
    import click

    return str(click.prompt("API key", hide_input=True, err=True))


def whoami(options: ApiOptions) -> Output:
    """Show what the key belongs to and may do."""
    client = connect(options)
    return Output(dict(client.me().raw), lines=_format_caller)


def _format_caller(caller: Json) -> list[str]:
    key: Json = caller["key"] or {}
    profile = caller["profile"]
    return [
        f"organization  {caller['organization']['name']}",
        f"profile       {profile['name'] if profile else 'all'}",
        f"key           {key.get('name')} …{key.get('last4')}",
        f"scopes        {' '.join(key.get('scopes', ()))}",
        f"expires       {key.get('expiresAt') or 'never'}",
    ]


def logout(options: ApiOptions) -> Output:
    """Forget a server and its key."""
    name, path = options.name or options.server or servers.DEFAULT, servers.servers_file()
    with _changing(path) as stored:
        if stored.pop(name, None) is None:
            options.usage(f"{path} has no server {name!r}")
    return Output({"name": name, "removed": True}, wrote=True)


@contextlib.contextmanager
def _changing(path: Path) -> Generator[dict[str, Server]]:
    """Yield the stored servers, and store them as the block changes them.

    One command after another.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _hold_folder(path.parent):
        stored = servers.load_servers(path)
        yield stored
        real = Path(os.path.realpath(path))
        for left in real.parent.glob(f".{real.name}.*"):  # of a command that was killed; there are keys in it
            left.unlink()
        save(path, stored)


@contextlib.contextmanager
def _hold_folder(folder: Path) -> Generator[None]:
    """Lock a folder for the block, where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def save(path: Path, stored: dict[str, Server]) -> None:
    """Write the file whole, for its owner alone."""
    tables = "\n".join(_format_server(name, server) for name, server in stored.items())
    atomic_files.write(path, tables.encode())


def _format_server(name: str, server: Server) -> str:
    """Format a table. A JSON string without surrogates is a TOML string too."""
    fields = {"url": server.url, "key": server.key, "profile": server.profile}
    lines = [
        f"{field} = {json.dumps(value, ensure_ascii=False)}" for field, value in fields.items() if value is not None
    ]
    return "\n".join([f"[{json.dumps(name, ensure_ascii=False)}]", *lines, ""])
