"""The description of an API operation for the reference, declared beside its handler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from socialpub.domain.schemas.common import EmptyQuery


@dataclass(frozen=True)
class SuccessResponse:
    """A successful response: its body's type (`domain.schemas`), description and example."""

    shape: Any
    says: str
    example: Any


@dataclass(frozen=True)
class Operation:
    """The texts, types and examples of an operation.

    Its address and guard are in the route table.

    `requests`: examples of the body, by name. `answers`: the successful responses by status.
    `errors`: ids of service rules, and error codes without a rule, of this operation. Those that follow from the guard,
    the rate limit and the body are added by `openapi.document`.
    `links`: JSON pointers into the response to the `id` that another operation takes.
    """

    tag: str
    name: str
    summary: str
    about: str = ""
    query: type[BaseModel] = EmptyQuery
    body: type[BaseModel] | None = None
    requests: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[int, SuccessResponse] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
