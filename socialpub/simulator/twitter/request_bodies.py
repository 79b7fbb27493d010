"""JSON bodies, held against their shape; what does not fit is refused in X's words."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from socialpub.simulator.contract import Call
from socialpub.simulator.twitter.problems import invalid

Shape = TypeVar("Shape", bound=BaseModel)


def body_of(call: Call, shape: type[Shape]) -> Shape:
    """The call's body; X's refusal when it is not JSON or has another shape, unknown keys included."""
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
