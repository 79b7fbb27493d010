"""JSON codec: the fast encoder matches Python's own, including odd numbers and types."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from socialpub.base.json_codec import dumps

OWN = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
ANY_TEXT = some.text(some.characters(exclude_categories=()))  # with halves of surrogate pairs
PLAIN = some.none() | some.booleans() | some.integers() | some.integers(-(2**70), 2**70) | ANY_TEXT
NAMES = ANY_TEXT | some.integers() | some.booleans() | some.none()


def nested(leaves: some.SearchStrategy[Any]) -> some.SearchStrategy[Any]:
    return some.recursive(
        leaves,
        lambda inner: some.lists(inner) | some.lists(inner).map(tuple) | some.dictionaries(NAMES, inner),
        max_leaves=20,
    )


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@given(nested(PLAIN))
@example("".join(map(chr, range(0x3000))))
@example("\u2028\ufeff\uffff\U0001f600\ud83d")
@example([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1])
@example(deep(300))
def test_both_encoders_make_the_same_text(value: Any) -> None:
    assert dumps(value) == OWN.encode(value)


@given(nested(PLAIN | some.floats()))
@example([1e16, 1e-7, 5e-324, 0.1 + 0.2, -0.0])
@example([math.nan, math.inf, -math.inf, {"odd": 2**64, "number": math.nan}])
def test_any_number_is_read_back_and_what_json_has_not_is_null(value: Any) -> None:
    own = json.loads(OWN.encode(value), parse_constant=lambda _: None)
    assert json.loads(dumps(value), parse_constant=pytest.fail) == own


@dataclasses.dataclass
class NoJson:
    number: int = 1


@pytest.mark.parametrize("value", [NoJson(), datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), {1}, b"x", object()])
def test_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        dumps({"value": value})
