"""Ids as numbers or 16 bytes in rows, and as text everywhere else.

The text of 36 characters in each row and each of its indexes was a third of the database.
"""

from __future__ import annotations

# Columns with the number of another table's row: table -> column -> other table.
NUMBER_COLUMNS = {
    "attempt": {"post": "post"},
    "batch": {"organization": "organization"},
    "external_id": {"organization": "organization"},
    "intent": {"post": "post", "account": "account"},
    "post": {"organization": "organization", "profile": "profile", "account": "account"},
}
# Columns with the bytes of a UUID. Formatting one takes longer than finding a row, so columns of lists store text.
UUID_COLUMNS = {"attempt": ("id",)}


def select_number(table: str, id: str) -> str:
    """Return the subquery of the number of the row with an id, a parameter or a column."""
    return f"(SELECT number FROM {table} WHERE id = {id})"


def select_id(table: str, number: str) -> str:
    """Return the subquery of the id of the row with a number."""
    return f"(SELECT id FROM {table} WHERE number = {number})"


def format_uuid(column: str) -> str:
    """Return the expression of the text of an id that is stored as bytes, if it is."""
    ranges = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    parts = " || '-' || ".join(f"substr(hex({column}), {first}, {count})" for first, count in ranges)
    return f"iif(typeof({column}) = 'blob', lower({parts}), {column})"


def select_column(table: str, column: str, of: str = "") -> str:
    """Return the expression of a column with ids as text; `of` is the table's alias."""
    source = f"{of or table}.{column}"
    if to := NUMBER_COLUMNS.get(table, {}).get(column):
        return select_id(to, source)
    return format_uuid(source) if column in UUID_COLUMNS.get(table, ()) else source
