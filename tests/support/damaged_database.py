"""Large database files, and damage at one place of a file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from socialpub.store.engine.integrity import START_CHECK_BYTES_MAX

PAGE = 4096


def grow_database(database: Path, bytes_: int = START_CHECK_BYTES_MAX * 2) -> None:
    """Let what an audit keeps take so much room."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "INSERT INTO audit (subject, at, verb, address, request_id) WITH RECURSIVE n (n) AS "
            "(SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?) "
            "SELECT printf('grown %08d ', n) || hex(randomblob(8)), 1, hex(randomblob(1000)), '', '' FROM n",
            (bytes_ // 2000,),
        )
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def damage_file(database: Path) -> None:
    """One leaf of the audit's table, and nothing that a start looks at."""
    content = database.read_bytes()
    place = content.index(b"grown 00005000") // PAGE * PAGE
    with database.open("r+b") as file:
        file.seek(place)
        file.write(b"\xff" * 64)
