"""Print `socialpub/store/rows.py`: a type for the rows of each model that declares one."""

from __future__ import annotations

import json

import peewee

from socialpub.store.engine.id_fields import SurrogateKeyField, UuidField
from socialpub.store.schema.models import COLUMN_WORDS, TABLES

KINDS = {
    peewee.IntegerField: "int",
    peewee.FloatField: "float",
    peewee.BooleanField: "bool",
    peewee.TextField: "str",
    UuidField: "str",
    SurrogateKeyField: "str",
}
NAMES = {words: name for name, words in COLUMN_WORDS.items()}
HEAD = '''"""Types of the rows that `.dicts()`, `find_row` and `get_row` of `models` return.

Times are epoch milliseconds, structures are JSON text. `make fix` generates this file from `models.py`.
"""

from typing import Literal

from typing_extensions import TypedDict
'''


def kind_of(field: peewee.Field) -> str:
    """The Python type of a column; of a reference, the type of the column referred to."""
    while isinstance(field, peewee.ForeignKeyField) and not isinstance(field, SurrogateKeyField):
        field = field.rel_field
    if field.choices:
        return NAMES[field.choices]
    return next(kind for base, kind in KINDS.items() if isinstance(field, base))


def type_of(model: type[peewee.Model]) -> str:
    """The TypedDict of a model's rows."""
    lines = [f"class {model.__name__}Row(TypedDict):"]
    for field in model._meta.sorted_fields:
        lines.append(f"    {field.name}: {kind_of(field)}{' | None' if field.null else ''}")
    return "\n".join(lines)


print(HEAD)
for name, words in COLUMN_WORDS.items():
    print(f"{name} = Literal{json.dumps(words)}")
for model in TABLES:
    if "row" in model.__annotations__:
        print(f"\n\n{type_of(model)}")
