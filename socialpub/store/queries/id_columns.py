"""Ids as rows keep them, and as everybody else knows them: a small number or 16 bytes there, text everywhere else.

A text of 36 characters in each row and each of its indexes was a third of the database.
"""

from __future__ import annotations

# Columns that hold the number of another table's row: by table and column, that table.
NUMBER_COLUMNS = {
    "attempt": {"post": "post"},
    "batch": {"organization": "organization"},
    "intent": {"post": "post", "account": "account"},
    "post": {"organization": "organization", "profile": "profile", "account": "account"},
}
# Columns that hold the bytes of a UUID (`ids.kept`). Telling its text takes longer than finding a row, so that nothing
# of what lists show is kept so.
UUID_COLUMNS = {"attempt": ("id",)}


def select_number(table: str, id: str) -> str:
    """The number of the row of a table that has this id, a parameter or a column."""
    return f"(SELECT number FROM {table} WHERE id = {id})"


def select_id(table: str, number: str) -> str:
    """The id of the row of a table that has this number."""
    return f"(SELECT id FROM {table} WHERE number = {number})"


def format_uuid(column: str) -> str:
    """The text of an id that is kept as bytes; what is no UUID is kept as it is."""
    places = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    parts = " || '-' || ".join(f"substr(hex({column}), {first}, {count})" for first, count in places)
    return f"iif(typeof({column}) = 'blob', lower({parts}), {column})"


def select_column(table: str, column: str, of: str = "") -> str:
    """A column as everybody knows it; `of`: what the statement calls the table."""
    source = f"{of or table}.{column}"
    if to := NUMBER_COLUMNS.get(table, {}).get(column):
        return select_id(to, source)
    return format_uuid(source) if column in UUID_COLUMNS.get(table, ()) else source
