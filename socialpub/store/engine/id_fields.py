"""Columns that keep an id shorter than it is known (`statements/ids.py`): given and told as text, like every id."""

from __future__ import annotations

import re
from typing import Any

import peewee

from socialpub.store.queries import id_columns

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def encode_id(id: str) -> bytes | str:
    """An id as a column of bytes keeps it: the 16 of a UUID; what is none, as it is."""
    return bytes.fromhex(id.replace("-", "")) if _UUID.fullmatch(id) else id


class _EncodedIdField(peewee.Field):  # type: ignore[misc]
    """What both have in common: what is selected of them is the id."""

    def told(self, source: str) -> str:
        """The id, of a column that a statement calls by this name."""
        table, column = self.model._meta.table_name, self.column_name
        return id_columns.select_column(table, column).replace(f"{table}.{column}", source)

    def python_value(self, value: Any) -> Any:
        return value


class SurrogateKeyField(_EncodedIdField, peewee.ForeignKeyField):  # type: ignore[misc]
    """The number of another table's row, which is given and told as that row's id."""

    def db_value(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return peewee.SQL(id_columns.select_number(f'"{self.rel_model._meta.table_name}"', "?"), (value,))


class UuidField(_EncodedIdField):
    """The bytes of a UUID, which is given and told as its text."""

    field_type = "BLOB"

    def db_value(self, value: Any) -> Any:
        return encode_id(value) if isinstance(value, str) else value


def select_as_id(field: Any) -> Any:
    """What a query asks for where it names a field."""
    if not isinstance(field, _EncodedIdField):
        return field
    parts: list[Any] = []
    for piece in field.told("\0").split("\0"):
        parts += [peewee.SQL(piece), field]
    return peewee.NodeList(parts[:-1], glue="").alias(field.name)
