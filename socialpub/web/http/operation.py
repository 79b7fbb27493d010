"""What an operation of the API is, as the reference tells it: a value that stands beside its handler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from socialpub.domain.schemas.common import EmptyQuery


@dataclass(frozen=True)
class SuccessResponse:
    """One answer: the type of what is sent (`domain.schemas`), what its status means, and an example."""

    shape: Any
    says: str
    example: Any


@dataclass(frozen=True)
class Operation:
    """An operation's words, shapes and examples. Its address, and who may call it, stand in the table of routes.

    `requests`: examples of the body, by what they show. `answers`: by status.
    `errors`: ids of service rules, and codes without a rule, that are its own. What follows from who may call it, how
    often and with what is added (`openapi.refusals`).
    `links`: where in the answer the `id` of other operations stands.
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
