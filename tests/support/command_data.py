"""Organizations, users and accounts created by CLI commands, and their audit rows."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from socialpub.base.config import VARIABLE_PREFIX
from socialpub.store.schema import migration

Ask = Callable[..., Any]


PASSWORD = "correct horse battery staple"


_made: dict[tuple[str, Path], tuple[tuple[str, str], dict[str, bytes]]] = {}


def make_organization(ask: Ask, name: str = "Acme") -> tuple[str, str]:
    """(organization, its first profile).

    The first one of an empty directory without settings is made once, and its files are written again later.
    """
    migrations = migration.find_shipped_directory("migrations")
    if any(Path().iterdir()) or any(each.startswith(VARIABLE_PREFIX) for each in os.environ):
        return _make_organization(ask, name)
    if (name, migrations) in _made:
        made, files = _made[name, migrations]
        for path, content in files.items():
            Path(path).write_bytes(content)
        return made
    made = _make_organization(ask, name)
    _made[name, migrations] = made, {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    return made


def _make_organization(ask: Ask, name: str) -> tuple[str, str]:
    org = ask("org", "create", name)["id"]
    return org, ask("profile", "list", "--org", org)[0]["id"]


def make_user(ask: Ask, email: str, *where: str) -> dict[str, Any]:
    made = ask("user", "create", *where, "--email", email, "--role", "member", stdin=PASSWORD)
    return dict(made)


def insert_account(ask: Ask, profile: str, platform: str, name: str) -> dict[str, Any]:
    given = ("--profile", profile, "--platform", platform, "--platform-account-id", name)
    return dict(ask("account", "add", *given, stdin=json.dumps({"accessToken": "access-token-do-not-show"})))


def audit_rows(folder: Path) -> list[tuple[str, str | None]]:
    with closing(sqlite3.connect(folder / "socialpub.db")) as connection:
        return connection.execute("SELECT verb, subject FROM audit ORDER BY number").fetchall()
