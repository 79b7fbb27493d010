"""Jinja, set up once: everything is escaped, a missing value is an error."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from socialpub.base.config import shipped


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(shipped("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values: Any) -> str:
    """The page of a template."""
    return _environment().get_template(template).render(**values)
