"""Fields that store ids compactly (`queries.id_columns`) and present them as text."""

from __future__ import annotations

import re
from typing import Any

import peewee

from socialpub.store.queries import id_columns

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def encode_id(id: str) -> bytes | str:
    """Return an id as it is stored: the 16 bytes of a UUID, other ids unchanged."""
    return bytes.fromhex(id.replace("-", "")) if _UUID.fullmatch(id) else id


class _EncodedIdField(peewee.Field):  # type: ignore[misc]
    """A field whose queries select the id as text."""

    def select_id(self, source: str) -> str:
        """Return the SQL expression of the id, for a column called `source` in the statement."""
        table, column = self.model._meta.table_name, self.column_name
        return id_columns.select_column(table, column).replace(f"{table}.{column}", source)

    def python_value(self, value: Any) -> Any:
        return value


class SurrogateKeyField(_EncodedIdField, peewee.ForeignKeyField):  # type: ignore[misc]
    """Stores the number of another table's row; its value is that row's id."""

    def db_value(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return peewee.SQL(id_columns.select_number(f'"{self.rel_model._meta.table_name}"', "?"), (value,))


class UuidField(_EncodedIdField):
    """Stores the bytes of a UUID; its value is the UUID as text."""

    field_type = "BLOB"

    def db_value(self, value: Any) -> Any:
        return encode_id(value) if isinstance(value, str) else value


def select_as_id(field: Any) -> Any:
    """Return the expression that selects a field, as an id if it is encoded."""
    if not isinstance(field, _EncodedIdField):
        return field
    parts: list[Any] = []
    for piece in field.select_id("\0").split("\0"):
        parts += [peewee.SQL(piece), field]
    return peewee.NodeList(parts[:-1], glue="").alias(field.name)
