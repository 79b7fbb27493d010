"""The front door: HTTP in, verbs of the domain called, answers out."""

import sys
from types import ModuleType

PAGES = {"error": ("ErrorPage",), "directory_page": ("DirectoryPage", "FileInfo")}
"""Sanic's own pages, by their modules in `sanic.pages`."""


def _do_without() -> None:
    """Of what Sanic reads at its start: its pages, with what draws tracebacks, and a second parser of JSON.

    Nobody is shown the ones, for `errors.py` answers whatever goes wrong and no folder is served; nothing is read or
    written by the other. Together they would take three megabytes for as long as a server runs.
    """
    if "sanic" in sys.modules:
        return
    for name, classes in PAGES.items():
        page = ModuleType(f"sanic.pages.{name}")
        page.__dict__.update(dict.fromkeys(classes))
        sys.modules.setdefault(page.__name__, page)
    sys.modules.setdefault("ujson", None)  # type: ignore[arg-type]  # which is how a module is not found


_do_without()
