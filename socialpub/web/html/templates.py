"""Jinja setup: autoescaping on, undefined variables are errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from socialpub import __version__
from socialpub.base.system.directories import find_shipped_directory
from socialpub.web.html import time_format
from socialpub.web.http.handler import HandlerResponse

if TYPE_CHECKING:
    from jinja2 import Environment

HTML_TYPE = "text/html; charset=utf-8"
TINTS = 8
BYTE_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
SIGNED_OUT_CONTEXT: dict[str, Any] = {
    "session": None,
    "notice": None,
    "filled": {},
    "csrf_token": "",
    "path": "",
    "zone": "UTC",
    "needs_proof": False,
}
"""The layout's template variables without a signed-in user."""


@cache
def environment() -> Environment:
    """Return the Jinja environment.

    It is imported with the first page: most servers serve none.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context

    environment = Environment(
        loader=FileSystemLoader(find_shipped_directory("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"inline": render_inline, "prose": render_prose, "zip": zip_lists, "isolate": isolate}
    environment.filters |= {
        "initials": find_initials,
        "tint": choose_tint,
        "sized": format_bytes,
        "length_of_time": time_format.format_length,
    }
    environment.filters |= {name: pass_context(show) for name, show in time_format.READER_FILTERS.items()}
    environment.globals |= SIGNED_OUT_CONTEXT | {"version": __version__, "find_symbols": find_symbols}
    return environment


def render(template: str, **values: Any) -> str:
    """Return the rendered template."""
    return environment().get_template(template).render(**values)


def render_page(template: str, status: int = 200, cookies: tuple[str, ...] = (), **values: Any) -> HandlerResponse:
    """Return the rendered template as a response."""
    return HandlerResponse(render(template, **values), status, {}, HTML_TYPE, cookies)


def zip_lists(first: Iterable[Any], second: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Template filter: pair the items of two lists of one length."""
    return list(zip(first, second, strict=True))


def format_bytes(count: int) -> str:
    """Return a size in words: `34.9 kB`, `1.2 GB`."""
    for unit, name in BYTE_UNITS:
        if count >= unit / 10:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"


def isolate(text: str) -> Markup:
    """Return a user's text as a bidirectional isolate, for use inside a sentence.

    An element that contains only such a text has `dir="auto"` instead.
    """
    return Markup('<bdi dir="auto">{}</bdi>').format(text)


def find_initials(name: str) -> str:
    """Template filter: return two letters for a name: of two words, or of its only one."""
    local_part = name.partition("@")[0] or name  # of an e-mail address
    words = re.findall(r"[^\W_]+", local_part)
    letters = words[0][:2] if len(words) == 1 else "".join(word[0] for word in words[:2])
    return letters.upper() or "?"


def choose_tint(name: str) -> int:
    """Template filter: return the number of a name's colour (`.tint-N` in style.css)."""
    return sum(name.encode()) % TINTS


def read_source(template: str) -> str:
    """Return a template's source."""
    jinja = environment()
    assert jinja.loader is not None
    return jinja.loader.get_source(jinja, template)[0]


@cache
def find_symbols(prefix: str = "") -> list[str]:
    """Return the names of the icons whose ids begin with a prefix.

    The prefixes: `p-` platforms, `d-` drawings, `s-` states; none: the other icons.
    """
    return re.findall(rf'<symbol id="{prefix}(\w+)"', read_source("static/icons.svg"))


def render_inline(text: str) -> Markup:
    """Render our own text: `code` and **strong** become HTML; the rest is escaped."""
    shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return Markup(re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", shown))


def render_prose(text: str) -> Markup:
    """Render our own text in paragraphs, separated by empty lines, as `render_inline` does."""
    return Markup("\n").join(
        Markup("<p>{}</p>").format(render_inline(part)) for part in text.split("\n\n") if part.strip()
    )
