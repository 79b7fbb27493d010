"""Named servers in `~/.config/socialpub/servers.toml`, and the choice of one.

Each table is one server: `[main]` with `url`, `key` and, optionally, `profile`. The file is its owner's alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from socialpub_client.errors import ConfigurationError

DEFAULT = "default"
FILE_MAX = 1 << 20


@dataclass(frozen=True)
class Server:
    """Address of a server, and a key for it."""

    url: str
    key: str = field(repr=False)
    profile: str | None = None


def servers_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the file."""
    base = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME") or "~").expanduser() / ".config")
    return Path(base) / "socialpub" / "servers.toml"


def load_servers(path: Path) -> dict[str, Server]:
    """Read the file; empty if there is none. Raises ConfigurationError.

    A file that others can read is refused."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(FILE_MAX)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}.") from error
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationError(f"{path} holds keys, and others can read it.", remediation=f"chmod 600 {path}")
    import tomllib  # not needed by a client that is given its address and key

    try:
        tables = tomllib.loads(text.decode("utf-8-sig"))
    except ValueError:
        raise ConfigurationError(f"{path} is not TOML.") from None  # the parser's message may hold a key
    return {name: _parse_server(path, name, table) for name, table in tables.items()}


def _parse_server(path: Path, name: str, table: Any) -> Server:
    if isinstance(table, dict):
        match cast("dict[str, Any]", table):
            case {"url": str(url), "key": str(key), **rest} if set(rest) <= {"profile"}:
                profile = rest.get("profile")
                if profile is None or isinstance(profile, str):
                    return Server(url, key, profile)
            case _:
                ...
    raise ConfigurationError(f"{path}: [{name}] needs `url` and `key`, and may have `profile`.")


def resolve_server(
    url: str | None,
    key: str | None,
    name: str | None,
    profile: str | None,
    environment: Mapping[str, str] = os.environ,
) -> Server:
    """Return the server to use: argument before environment before file.

    `name` is a server of the file, and goes before the environment. A key of the file is only sent to its own
    address. Raises ConfigurationError if there is no address or key.
    """
    if name is None:
        url = url or environment.get("SOCIALPUB_URL")
        key = key or environment.get("SOCIALPUB_KEY")
    if name is None and url and key:
        return Server(url, key, profile)
    path = servers_file(environment)
    servers = load_servers(path)
    kept = servers.get(name or DEFAULT)
    if name is not None and kept is None:
        known = ", ".join(sorted(servers)) or "none"
        raise ConfigurationError(f"{path} has no server {name!r}; it has: {known}.")
    if kept is not None and (url is None or url.rstrip("/") == kept.url.rstrip("/")):
        return Server(kept.url, key or kept.key, profile or kept.profile)
    missing = "address" if not url else "API key"
    raise ConfigurationError(
        f"There is no {missing} of the server.",
        remediation=f"Give it, or set SOCIALPUB_URL and SOCIALPUB_KEY, or store both with `socialpub login` ({path}).",
    )
