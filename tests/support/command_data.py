"""Organizations, users and accounts created by CLI commands, and their audit rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

Ask = Callable[..., Any]


PASSWORD = "correct horse battery staple"


def make_organization(ask: Ask, name: str = "Acme") -> tuple[str, str]:
    """(organization, its first profile)."""
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
