"""Caches of Sanic routes and middleware, for quick server and simulator starts.

Servers share routes and handlers; each simulator has handlers of its own.
"""

from __future__ import annotations

import functools
import inspect
import sys
from types import CodeType, SimpleNamespace
from typing import Any

import sanic.mixins.routes
import sanic.router
from sanic import Sanic
from sanic_routing import route, router
from sanic_routing.utils import parts_to_path, path_to_parts

from socialpub.web import app
from socialpub.web.http.sanic_overrides import ServerApp


def cache_routes() -> None:
    """From now on."""
    _share_app_routes()
    # The finder of routes is compiled by way of its syntax tree, which is read by nobody (and which Python 3.11 may not
    # build in two threads at once).
    vars(router)["ast"] = SimpleNamespace(parse=str, unparse=str, fix_missing_locations=str)
    for module in (router, route):
        vars(module).update(path_to_parts=functools.cache(path_to_parts), parts_to_path=functools.cache(parts_to_path))
    for named in (sanic.mixins.routes, sanic.router):
        vars(named)["signature"] = _signature
    router.BaseRouter._generate_tree = lambda self: None  # type: ignore[method-assign]  # `_render` does, when it has to
    router.BaseRouter._render = _render  # type: ignore[method-assign]
    route.Route.segments = property(_segments)  # type: ignore[assignment,method-assign]
    Sanic.finalize_middleware = _finalize_middleware  # type: ignore[method-assign]
    Sanic._determine_error_format = _determine_error_format  # type: ignore[method-assign]
    sys.modules.setdefault("sanic_ext", None)  # type: ignore[arg-type]  # each app looks for it on the disk


def _share_app_routes() -> None:
    """Add the routes of the program once: their handlers and middleware find the server by the request."""
    add_routes, shared = vars(app)["_add_routes"], app.ROUTES
    routers: list[sanic.router.Router] = []

    def add_once(server: ServerApp) -> None:
        if app.ROUTES is not shared:  # a test has added its own
            add_routes(server)
            return
        if not routers:
            add_routes(server)
            routers.append(server.router)
        server.router = routers[0]

    vars(app)["_add_routes"] = add_once
    Sanic.test_mode = True  # a router that is final may be made final again


_finders: dict[Any, tuple[Any, Any, str]] = {}
_finalize_anew = Sanic.finalize_middleware
_render_anew, _tree = router.BaseRouter._render, router.BaseRouter._generate_tree


def _render(self: Any, *how: Any) -> None:
    """The finder and its patterns, which know routes by their places alone."""
    places = tuple((at.parts, at.methods, at.strict, at.unquote, repr(at.requirements)) for at in self.routes)
    key = (type(self), places)
    if key not in _finders:
        _tree(self)
        _render_anew(self, *how)
        _finders[key] = self._find_route, getattr(self, "_matchers", None), self.find_route_src
    self._find_route, self._matchers, self.find_route_src = _finders[key]


def _finalize_middleware(self: Any) -> None:
    """Sort the middleware once for all routes: none has any of its own."""
    assert not self.named_request_middleware, "middleware of one route"
    assert not self.named_response_middleware, "middleware of one route"
    found = SimpleNamespace(
        router=SimpleNamespace(routes=()),
        request_middleware=self.request_middleware,
        response_middleware=self.response_middleware,
    )
    _finalize_anew(found)
    self.request_middleware, self.response_middleware = found.request_middleware, found.response_middleware
    for each in self.router.routes:
        each.extra.request_middleware = found.request_middleware
        each.extra.response_middleware = found.response_middleware


def _segments(self: Any) -> tuple[str, ...]:
    return _generalized(self.parts, tuple((at, found.label) for at, found in self._params.items()))


@functools.cache
def _generalized(parts: tuple[str, ...], labels: tuple[tuple[int, str], ...]) -> tuple[str, ...]:
    found = {at: f"<__dynamic__:{label}>" for at, label in labels}
    return tuple(found.get(at, part) for at, part in enumerate(parts))


_error_formats: dict[CodeType, str] = {}
_read_error_format = Sanic._determine_error_format


def _determine_error_format(self: Any, handler: Any) -> str:
    """By the source of a handler, which is read and parsed once."""
    code = getattr(handler, "__code__", None)
    if code is None:
        return _read_error_format(self, handler)
    if code not in _error_formats:
        _error_formats[code] = _read_error_format(self, handler)
    return _error_formats[code]


_signatures: dict[CodeType, inspect.Signature] = {}


def _signature(handler: Any) -> inspect.Signature:
    """Of a handler: those of one function's making have one signature."""
    code = getattr(handler, "__code__", None)
    if code is None or hasattr(handler, "__wrapped__"):
        return inspect.signature(handler)
    if code not in _signatures:
        _signatures[code] = inspect.signature(handler)
    return _signatures[code]
