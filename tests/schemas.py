"""Databases of tests are made in less time: what the migrations make of an empty file is made once in a process, and
copied after that. A look at each statement (`tests/store/test_migrations.py`) still sees them all.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from playhouse import migrations

from socialpub.store import migrate

_NO_WAL = b"\1\1"  # where the file says how it is to be read and written: memory has no log to write ahead

_made: dict[bytes, tuple[bytes, list[str]]] = {}  # by what the migrations say: the database, and those applied


def remember() -> None:
    """From now on."""
    vars(migrate)["Runner"] = _Remembering


class _Remembering(migrations.Runner):  # type: ignore[misc]
    def up(self) -> list[str]:
        here = self.database.connection()
        if type(here) is not sqlite3.Connection or self.database.get_tables():
            return list(super().up())
        key = b"\0".join(path.read_bytes() for path in sorted(Path(self.directory).glob("[0-9]*.py")))
        if key in _made:
            with contextlib.closing(sqlite3.connect(":memory:")) as kept:
                kept.deserialize(_made[key][0])
                kept.backup(here)
        else:
            applied = super().up()
            content = here.serialize()
            _made[key] = content[:18] + _NO_WAL + content[20:], applied
        return list(_made[key][1])
