"""JSON as it is sent and stored: no spaces, no escapes that nobody needs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import orjson

_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME  # which are no JSON, and are not made it
_dumps_with_fallback: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
dumps_strict: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
"""The same for others, as httpx makes it; ValueError for NaN and the infinities, which are no JSON."""


def dumps(value: Any) -> str:
    """Whatever JSON has, and `null` for NaN and the infinities, which it has not: an answer can be read whatever is in
    it. TypeError for what is no JSON.

    What orjson does not take is rare (half a surrogate pair, integers beyond 64 bits, depths beyond 250, names that are
    no strings) and left to Python's own encoder.
    """
    try:
        return orjson.dumps(value, None, _OPTIONS).decode()
    except TypeError:
        return _dumps_with_fallback(json.loads(_dumps_with_fallback(value), parse_constant=_replace_constant))


def _replace_constant(name: str) -> None:
    """In place of a number that JSON has not."""


def loads(raw: str | bytes) -> Any:
    """JSON that others sent, with null for each number that is not finite (`NaN`, `Infinity`, `1e999`).

    ValueError for what is no JSON, or nested too deeply to be read.
    """
    try:
        return json.loads(raw, parse_constant=_replace_constant, parse_float=_parse_finite)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def _parse_finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None
