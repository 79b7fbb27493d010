"""Validation of JSON bodies, with X's errors."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from socialpub.simulator.contract import Call
from socialpub.simulator.twitter.problems import invalid

Shape = TypeVar("Shape", bound=BaseModel)


def body_of(call: Call, shape: type[Shape]) -> Shape:
    """Parse the call's body; refuse if it is not JSON or has another shape or unknown keys."""
    try:
        body: Any = call.json()
    except ValueError as error:
        raise invalid(f"invalid JSON: {error}", "requestBody") from None
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in ("requestBody", *first["loc"]))
        raise invalid(str(first["msg"]), where, [first.get("input")]) from None
