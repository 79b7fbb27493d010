"""Query for the master keys that seal a database's secrets."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from socialpub.store.queries.encrypted_columns import ENCRYPTED_COLUMNS


def key_ids_in_use(database: Path) -> dict[str, set[str]]:
    """The keys that each column is sealed with."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as found:
        keys = {
            f"{each.table}.{each.column}": {key for (key,) in found.execute(each.keys)} for each in ENCRYPTED_COLUMNS
        }
    return {name: of for name, of in keys.items() if of}
