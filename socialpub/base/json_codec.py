"""JSON as it is sent and stored: without spaces and unneeded escapes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import orjson

_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME  # raise TypeError for these
_dumps_with_fallback: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def dumps(value: Any) -> str:
    """Encode a value as JSON, with `null` for NaN and the infinities.

    Raise TypeError for other types. Python's own encoder takes the rare values that orjson refuses: lone surrogates,
    integers beyond 64 bits, depths beyond 250, names that are no strings.
    """
    try:
        return orjson.dumps(value, None, _OPTIONS).decode()
    except TypeError:
        return _dumps_with_fallback(json.loads(_dumps_with_fallback(value), parse_constant=_replace_constant))


def _replace_constant(name: str) -> None:
    """Return None in place of NaN or an infinity."""


def loads(raw: str | bytes) -> Any:
    """Decode JSON from outside, with None for NaN and numbers that are not finite.

    Raise ValueError for malformed JSON, or if it is nested too deeply.
    """
    try:
        return json.loads(raw, parse_constant=_replace_constant, parse_float=_parse_finite)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def _parse_finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None
