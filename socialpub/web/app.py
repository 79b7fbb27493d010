"""The application: the route table on one screen, what every answer carries, start and stop."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict

from sanic import HTTPResponse, Request, Sanic
from sanic.config import Config

from socialpub.domain import schemas as s
from socialpub.domain.jobs import Engine
from socialpub.domain.service import Service, close_service
from socialpub.web import errors, http
from socialpub.web.api import accounts, catalogue, posts, profiles
from socialpub.web.door import Door, rate_headers
from socialpub.web.http import Route
from socialpub.web.pages import docs, health

log = logging.getLogger("socialpub.web")

POST, GET, PATCH, DELETE = "POST", "GET", "PATCH", "DELETE"
WRITE, READ = (400, 401, 404, 409, 429), (400, 401, 404, 429)

ROUTES: tuple[Route, ...] = (
    # fmt: off
    Route(
        POST,
        "/v1/posts",
        posts.publish,
        "key",
        "posts",
        "Publish or schedule",
        s.PublishRequest,
        answers={200: s.BatchBody, 202: s.BatchBody},
        errors=(*WRITE, 402),
    ),
    Route(
        GET,
        "/v1/posts",
        posts.listing,
        "read",
        "reads",
        "List the post log",
        query=s.PostsQuery,
        answers={200: s.PostPage},
        errors=READ,
    ),
    Route(
        GET,
        "/v1/posts/<post_id:str>",
        posts.read,
        "read",
        "reads",
        "Read one post",
        answers={200: s.PostDetail},
        errors=READ,
    ),
    Route(
        PATCH,
        "/v1/posts/<post_id:str>",
        posts.reschedule,
        "key",
        "writes",
        "Reschedule a queued post",
        s.RescheduleRequest,
        answers={200: s.PostBody},
        errors=WRITE,
    ),
    Route(
        DELETE,
        "/v1/posts/<post_id:str>",
        posts.cancel,
        "key",
        "writes",
        "Cancel a queued post",
        answers={200: s.CanceledBody},
        errors=WRITE,
    ),
    Route(
        POST,
        "/v1/posts/<post_id:str>/retry",
        posts.retry,
        "key",
        "writes",
        "Try a failed post again",
        s.RetryRequest,
        answers={202: s.PostBody},
        errors=WRITE,
    ),
    Route(
        POST,
        "/v1/posts/<post_id:str>/settle",
        posts.settle,
        "key",
        "writes",
        "Say what became of an unknown outcome",
        s.SettleRequest,
        answers={200: s.PostBody},
        errors=WRITE,
    ),
    Route(
        GET,
        "/v1/accounts",
        accounts.listing,
        "read",
        "reads",
        "List connected accounts",
        query=s.AccountsQuery,
        answers={200: s.AccountList},
        errors=READ,
    ),
    Route(
        GET,
        "/v1/accounts/<account_id:str>",
        accounts.read,
        "read",
        "reads",
        "Read one account",
        answers={200: s.AccountBody},
        errors=READ,
    ),
    Route(GET, "/v1/profiles", profiles.listing, "read", "reads", "List profiles", answers={200: None}, errors=READ),
    Route(
        GET,
        "/v1/platforms",
        catalogue.list_platforms,
        "open",
        "reads",
        "Platforms and their limits",
        answers={200: None},
    ),
    Route(GET, "/v1/rules", catalogue.list_rules, "open", "reads", "Every rule", answers={200: None}),
    Route(GET, "/v1/errors", catalogue.list_errors, "open", "reads", "Every error code", answers={200: None}),
    Route(GET, "/healthz", health.healthz),
    Route(GET, "/readyz", health.readyz),
    Route(GET, "/docs", docs.index),
    Route(GET, "/docs/errors/<code:str>", docs.error),
    Route(GET, "/docs/rules/<rule:path>", docs.rule),
    Route(GET, "/static/style.css", docs.stylesheet),
    # fmt: on
)

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
DRAIN_SECONDS = 20.0
ANSWER_SECONDS = 2.0


def build_app(service: Service, engine: Engine, name: str = "socialpub") -> Sanic:  # type: ignore[type-arg]
    """The Sanic application over an open service; it starts and stops the engine."""
    config = Config(env_prefix=None)  # none of Sanic's settings come from the environment
    config.update(
        {
            "ACCESS_LOG": False,
            "FALLBACK_ERROR_FORMAT": "json",
            "REQUEST_MAX_SIZE": service.runtime.settings.media.max_bytes + 1024 * 1024,
            "REQUEST_TIMEOUT": 15,
            "RESPONSE_TIMEOUT": 90,
            "KEEP_ALIVE_TIMEOUT": 75,
            "MOTD": False,
            "TOUCHUP": False,  # Sanic would rewrite its own classes, which fails for a second app in one process
        }
    )
    app = Sanic(name, config=config, configure_logging=False, strict_slashes=True)
    door = Door(service, engine)
    _add_routes(app, door)
    _add_middleware(app, service)
    _add_lifecycle(app, service, engine, door)
    return app


def _add_routes(app: Sanic, door: Door) -> None:  # type: ignore[type-arg]
    methods: dict[str, list[str]] = defaultdict(list)
    for route in ROUTES:
        handler = door.endpoint(route)
        names = ["GET", "HEAD"] if route.method == "GET" else [route.method]
        methods[route.path] += names
        stream = route.method != "GET"
        app.add_route(handler, route.path, methods=names, stream=stream, name=handler.__name__)
    for number, (path, names) in enumerate(methods.items()):
        app.add_route(_options([*names, "OPTIONS"]), path, methods=["OPTIONS"], name=f"options_{number}")


def _options(names: list[str]):  # type: ignore[no-untyped-def]
    async def answer(request: Request, **_: str) -> HTTPResponse:
        return HTTPResponse(None, 204, {"Allow": ", ".join(sorted(names))})

    return answer


def _add_middleware(app: Sanic, service: Service) -> None:  # type: ignore[type-arg]
    @app.on_request
    async def name_it(request: Request) -> None:
        request.ctx.request_id = http.request_id(service, request)
        request.ctx.began = service.runtime.clock.monotonic()

    @app.on_response
    async def dress(request: Request, response: HTTPResponse) -> None:
        request_id = getattr(request.ctx, "request_id", None) or http.request_id(service, request)
        response.headers["X-Request-Id"] = request_id
        response.headers.update(rate_headers(service, request))
        for header, value in SECURITY_HEADERS.items():
            response.headers.setdefault(header, value)
        response.headers.setdefault("Cache-Control", "no-store")
        if service.base_url.startswith("https:"):
            response.headers["Strict-Transport-Security"] = "max-age=31536000"
        took = service.runtime.clock.monotonic() - getattr(request.ctx, "began", 0.0)
        log.info("%s %s %s %s %.0fms", request_id, request.method, ascii(request.path), response.status, took * 1000)

    @app.exception(Exception)
    async def explain(request: Request, error: Exception) -> HTTPResponse:
        return errors.answer(service, request, error)


def _add_lifecycle(app: Sanic, service: Service, engine: Engine, door: Door) -> None:  # type: ignore[type-arg]
    @app.before_server_start
    async def start(_: Sanic) -> None:  # type: ignore[type-arg]
        await asyncio.to_thread(engine.start)

    @app.before_server_stop
    async def stop(_: Sanic) -> None:  # type: ignore[type-arg]
        stopping = asyncio.ensure_future(asyncio.to_thread(engine.stop, DRAIN_SECONDS))
        await door.drained(DRAIN_SECONDS)
        service.hub.close()  # who still waits is answered as if its time were over
        await door.drained(ANSWER_SECONDS)
        await stopping

    @app.after_server_stop
    async def close(_: Sanic) -> None:  # type: ignore[type-arg]
        await asyncio.to_thread(close_service, service)
