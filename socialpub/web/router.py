"""Sanic's router, which compiles what finds a route from its text alone.

By way of a syntax tree, which it also writes out again for whoever wants to read it, that is a twentieth of a start.
"""

from __future__ import annotations

import sys
from typing import Any

import sanic.router

_BASE = sanic.router.Router.__base__  # which writes the text
_THERE = vars(sys.modules[_BASE.__module__])


class Router(sanic.router.Router):
    """The same routes are found."""

    def _render(self, do_compile: bool = True, do_optimize: bool = False) -> None:
        super()._render(False, do_optimize)
        if do_compile:
            made: dict[str, Any] = {}
            exec(compile(self.find_route_src, "", "exec"), _THERE, made)  # noqa: S102 - as Sanic does
            self._find_route, self._matchers = made["find_route"], made.get("matchers")
