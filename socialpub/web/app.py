"""The Sanic application: routes, middleware, error handler, and draining at shutdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any

from sanic import HTTPResponse
from sanic.config import Config
from sanic.exceptions import RequestCancelled
from sanic.response import BaseHTTPResponse

from socialpub.domain.background.engine import BackgroundEngine
from socialpub.domain.context.app_context import AppContext, limit_concurrency
from socialpub.web import error_responses
from socialpub.web.http import access_log, request_body
from socialpub.web.http.handler import GET, ServerRequest
from socialpub.web.http.middleware import Middleware
from socialpub.web.http.sanic_overrides import ServerApp, ServerResponse
from socialpub.web.openapi.document import OpenApiDocument
from socialpub.web.pipeline import RequestPipeline, make_endpoint
from socialpub.web.routes import ROUTES
from socialpub.web.server import connections_max

SanicHandler = Callable[[ServerRequest], Coroutine[Any, Any, HTTPResponse]]

DRAIN_SECONDS = 20.0
ANSWER_SECONDS = 2.0


def build_app(service: AppContext, engine: BackgroundEngine) -> ServerApp:
    """Build the Sanic application.

    It starts no background work: the caller runs the engine beside it.
    """
    configured = service.runtime.settings
    config = Config(env_prefix=None)  # none of Sanic's settings come from the environment
    config.update(
        {
            "ACCESS_LOG": False,
            "AUTO_EXTEND": False,  # do not search for installed extensions
            "FALLBACK_ERROR_FORMAT": "json",
            "REQUEST_MAX_SIZE": max(configured.media.max_bytes + 1024 * 1024, request_body.UNREAD_MAX),
            "REQUEST_TIMEOUT": 15,
            "RESPONSE_TIMEOUT": 90,
            "KEEP_ALIVE_TIMEOUT": 75,
            "MOTD": False,
            "CONNECTIONS_MAX": connections_max(
                limit_concurrency(configured.publishing.threads) + limit_concurrency(configured.publishing.workers)
            ),
            "TOUCHUP": False,  # see `ServerApp`
        }
    )
    app = ServerApp("socialpub", config=config, configure_logging=False, request_class=ServerRequest)
    ServerApp.unregister_app(app)  # the registry refuses a second application of the same name
    app.ctx.service = service
    app.ctx.reference = OpenApiDocument(ROUTES, service)
    app.ctx.routes = ROUTES
    app.ctx.pages = {route.path: route for route in ROUTES if route.method == GET and route.guard == "page"}
    app.ctx.pipeline = RequestPipeline(service, engine)
    _add_routes(app)
    _add_middleware(app, service)
    _add_error_handler(app, service)
    _add_drain(app, service, app.ctx.pipeline)
    return app


def _add_routes(app: ServerApp) -> None:
    methods = defaultdict[str, list[str]](list)
    for route in ROUTES:
        handler = make_endpoint(route)
        names = ["GET", "HEAD"] if route.method == GET else [route.method]
        methods[route.path] += names
        _add_route(app, handler, route.path, names, handler.__name__)
    for number, (path, names) in enumerate(methods.items()):
        _add_route(app, _make_options_handler([*names, "OPTIONS"]), path, ["OPTIONS"], f"options_{number}")


def _add_route(app: ServerApp, handler: SanicHandler, path: str, methods: list[str], name: str) -> None:
    # Without streaming, Sanic would buffer bodies of up to REQUEST_MAX_SIZE before authentication.
    strict = path != "/"  # Sanic's router fails for `//` if this route is strict
    app.add_route(handler, path, methods, strict_slashes=strict, stream=True, name=name, error_format="json")


def _make_options_handler(names: list[str]) -> SanicHandler:
    allowed = {"Allow": ", ".join(sorted(names))}

    async def answer(request: ServerRequest, **parts: str) -> HTTPResponse:
        await request_body.discard_body(request)
        return ServerResponse(status=204, headers=allowed)

    return answer


def _add_middleware(app: ServerApp, service: AppContext) -> None:
    app.ctx.middleware = Middleware(service)
    app.register_middleware(_on_request, "request")
    app.register_middleware(_on_response, "response")


def _on_request(request: ServerRequest) -> None:
    request.app.ctx.middleware.on_request(request)


def _on_response(request: ServerRequest, response: BaseHTTPResponse) -> None:
    request.app.ctx.middleware.on_response(request, response)


def _add_error_handler(app: ServerApp, service: AppContext) -> None:
    @app.exception(Exception)
    async def explain(request: ServerRequest, error: Exception) -> HTTPResponse:
        return await error_responses.respond(service, request, error)

    # The client has gone; the status is for the access log only.
    app.error_handler.add(
        RequestCancelled, lambda request, error: ServerResponse(status=access_log.CLIENT_CLOSED_REQUEST)
    )


def _add_drain(app: ServerApp, service: AppContext, pipeline: RequestPipeline) -> None:
    @app.before_server_stop
    async def drain(_: ServerApp) -> None:
        pipeline.close()
        await pipeline.wait_until_idle(DRAIN_SECONDS)
        service.waiting.close()  # waiting requests are answered as if their wait had timed out
        await pipeline.wait_until_idle(ANSWER_SECONDS)
