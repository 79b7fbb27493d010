"""Jinja, set up once: everything is escaped, a missing value is an error."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from socialpub import __version__
from socialpub.base.config import shipped
from socialpub.web.http import Reply
from socialpub.web.pages import times

if TYPE_CHECKING:
    from jinja2 import Environment

CONTENT_TYPE = "text/html; charset=utf-8"
SIZES = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
NOBODY: dict[str, Any] = {
    "desk": None,
    "notice": None,
    "filled": {},
    "csrf_token": "",
    "path": "",
    "zone": "UTC",
    "needs_proof": False,
}
"""What templates are given of whoever looks at a page, where nobody is signed in."""


@cache
def environment() -> Environment:
    """Jinja's, with what templates are given. It is read with the first page: most servers are asked for none."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context

    environment = Environment(
        loader=FileSystemLoader(shipped("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"inline": inline, "prose": prose, "zip": pairs, "isolate": isolate}
    environment.filters |= {"sized": sized, "length_of_time": times.length}
    environment.filters |= {name: pass_context(show) for name, show in times.FOR_A_READER.items()}
    environment.globals |= NOBODY | {"version": __version__}
    return environment


def render(template: str, **values: Any) -> str:
    """The page of a template."""
    return environment().get_template(template).render(**values)


def page(template: str, status: int = 200, cookies: tuple[str, ...] = (), **values: Any) -> Reply:
    """The page of a template, as an answer."""
    return Reply(render(template, **values), status, {}, CONTENT_TYPE, cookies)


def pairs(first: Iterable[Any], second: Iterable[Any]) -> list[tuple[Any, Any]]:
    """For templates: what stands in the same place of both."""
    return list(zip(first, second, strict=True))


def sized(count: int) -> str:
    """Bytes in words: `34.9 kB`, `1.2 GB`."""
    for unit, name in SIZES:
        if count >= unit / 10:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"


def isolate(text: str) -> Markup:
    """Return a person's text for the middle of our sentence: it runs in its own direction, and the sentence in ours.

    An element that holds nothing but such a text has `dir="auto"` instead.
    """
    return Markup('<bdi dir="auto">{}</bdi>').format(text)


def source(template: str) -> str:
    """A template's text as it stands."""
    ours = environment()
    assert ours.loader is not None
    return ours.loader.get_source(ours, template)[0]


def inline(text: str) -> Markup:
    """Our own plain words with `code` and **strong** set; everything else is escaped."""
    shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return Markup(re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", shown))


def prose(text: str) -> Markup:
    """The same in paragraphs, which empty lines divide."""
    return Markup("\n").join(Markup("<p>{}</p>").format(inline(part)) for part in text.split("\n\n") if part.strip())
