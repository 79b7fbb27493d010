"""The application: the route table on one screen, what every answer carries, and how its requests are drained."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any

from sanic import HTTPResponse, Request, Sanic
from sanic.config import Config

from socialpub.base.errors import refuse
from socialpub.domain.core.service import Service
from socialpub.domain.engine.jobs import Engine
from socialpub.domain.shapes.accounts import (
    AccountBody,
    AccountList,
    AccountsQuery,
    BoardList,
    BoardRequest,
    CompletedBody,
    CompleteRequest,
    ConnectBody,
    ConnectRequest,
    DefaultBoardBody,
)
from socialpub.domain.shapes.catalogue import CodeList, PlatformList, RuleList
from socialpub.domain.shapes.common import DeletedBody, Narrowing
from socialpub.domain.shapes.health import HealthBody, ReadyBody
from socialpub.domain.shapes.keys import KeyList, KeyRequest, MintedKeyBody, RevokedKeyBody
from socialpub.domain.shapes.media import MediaBody, MediaFields, MediaPage, MediaQuery
from socialpub.domain.shapes.posts import (
    BatchBody,
    CanceledBody,
    PostBody,
    PostDetail,
    PostPage,
    PostsQuery,
    PublishRequest,
    RescheduleRequest,
    RetryRequest,
    SettleRequest,
    ValidateRequest,
    ValidationBody,
)
from socialpub.domain.shapes.profiles import ProfileBody, ProfileList, ProfileRequest
from socialpub.web import bodies, edge, errors, http, trail
from socialpub.web.api import accounts, catalogue, keys, media, posts, profiles
from socialpub.web.door import Door, rate_headers
from socialpub.web.http import Route
from socialpub.web.openapi.document import Reference
from socialpub.web.pages import client, connect, docs, health, people, reference
from socialpub.web.server import connections_max

Handler = Callable[..., Coroutine[Any, Any, HTTPResponse]]

POST, GET, PATCH, DELETE = "POST", "GET", "PATCH", "DELETE"
BATCH = (
    "targets.required",
    "targets.max",
    "mode_conflict",
    "scheduledAt.future",
    "scheduledAt.no_first_comment",
    "scheduledAt.no_bluesky_reply",
    "profile.scope_mismatch",
    "target.account.not_connected",
    "target.account.ambiguous",
    "targets.account.platform_mismatch",
    "targets.options.platform_mismatch",
    "media.source",
    "media.base64_invalid",
    "media.unknown",
    "not_found",
    "post.duplicate",
    "preflight_failed",
)
UPLOAD = (
    "media.content_type",
    "media.parse_failed",
    "media.empty_body",
    "media.missing_file",
    "media.single_file",
    "media.size_max",
    "media.type_unsupported",
    "media.type_mismatch",
    "media.pixels_max",
    "media.unreadable",
    "http.timeout",
)
WINDOW = ("not_found", "post.status", "post.scheduledAt.window", "scheduledAt.future")
CONNECT = ("not_found", "platform_not_enabled")
MANAGERS = ("owner", "admin")
UPSTREAM = ("platform_auth_failed", "platform_rejected", "platform_unavailable")
BOARDS = ("not_found", "account.platform", "platform_auth_failed", "platform_unavailable")

# One line each: method, path, handler, who may, which rate limit; then what OpenAPI tells: body, query, answers, and
# the codes and rules of its own. What follows from guard, limit and body is added there (`openapi.refusals`).
# fmt: off
ROUTES: tuple[Route, ...] = (
    Route(POST, "/v1/posts", posts.publish, "key", "posts",
          body=PublishRequest, answers={200: BatchBody, 202: BatchBody}, waits=True,
          errors=(*BATCH, "billing.posts.monthly_cap", "service.paused"), takes=bodies.INLINE_MAX),
    Route(GET, "/v1/posts", posts.listing, "read", "reads",
          query=PostsQuery, answers={200: PostPage}, errors=("cursor", "not_found", "api_key.profile_scope")),
    Route(GET, "/v1/posts/<post_id:str>", posts.read, "read", "reads",
          query=Narrowing, answers={200: PostDetail}, errors=("not_found",)),
    Route(POST, "/v1/posts/validate", posts.validate, "key", "writes",
          body=ValidateRequest, answers={200: ValidationBody}, errors=BATCH[:-1], takes=bodies.INLINE_MAX),
    Route(PATCH, "/v1/posts/<post_id:str>", posts.reschedule, "key", "writes",
          query=Narrowing, body=RescheduleRequest, answers={200: PostBody}, errors=WINDOW),
    Route(DELETE, "/v1/posts/<post_id:str>", posts.cancel, "key", "writes",
          query=Narrowing, answers={200: CanceledBody}, errors=WINDOW[:-1]),
    Route(POST, "/v1/posts/<post_id:str>/retry", posts.retry, "key", "writes",
          query=Narrowing, body=RetryRequest, answers={202: PostBody},
          errors=("not_found", "post.retry.status", "post.retry.unsettled", "scheduledAt.future")),
    Route(POST, "/v1/posts/<post_id:str>/settle", posts.settle, "key", "writes",
          query=Narrowing, body=SettleRequest, answers={200: PostBody},
          errors=("not_found", "post.settle.status")),
    Route(GET, "/v1/accounts", accounts.listing, "read", "reads",
          query=AccountsQuery, answers={200: AccountList}),
    Route(GET, "/v1/accounts/<account_id:str>", accounts.read, "read", "reads",
          query=Narrowing, answers={200: AccountBody}, errors=("not_found",)),
    Route(POST, "/v1/accounts/connect/<platform:str>", accounts.start, "session", "writes",
          body=ConnectRequest, answers={200: ConnectBody}, errors=(*CONNECT, *UPSTREAM), before=accounts.before,
          needs=MANAGERS),
    Route(POST, "/v1/accounts/connect/<platform:str>/complete", accounts.complete, "session", "writes",
          body=CompleteRequest, answers={200: CompletedBody, 201: AccountBody}, before=accounts.before,
          errors=(*CONNECT, "connect.state", *UPSTREAM), needs=MANAGERS),
    Route(DELETE, "/v1/accounts/<account_id:str>", accounts.disconnect, "session", "writes",
          query=Narrowing, answers={200: DeletedBody}, errors=("not_found",), needs=MANAGERS),
    Route(GET, "/v1/accounts/<account_id:str>/pinterest/boards", accounts.list_boards, "read", "reads",
          query=Narrowing, answers={200: BoardList}, errors=BOARDS),
    Route(PATCH, "/v1/accounts/<account_id:str>/pinterest/default-board", accounts.choose_board, "key", "writes",
          query=Narrowing, body=BoardRequest, answers={200: DefaultBoardBody},
          errors=(*BOARDS, "pinterest.board.unknown")),
    Route(POST, "/v1/media", media.upload, "key", "media", receive=media.receive,
          query=MediaFields, answers={201: MediaBody}, errors=(*UPLOAD, "not_found", "profile.scope_mismatch")),
    Route(GET, "/v1/media", media.listing, "read", "reads",
          query=MediaQuery, answers={200: MediaPage}, errors=("cursor", "not_found", "api_key.profile_scope")),
    Route(GET, "/v1/media/<media_id:str>", media.read, "read", "reads",
          query=Narrowing, answers={200: MediaBody}, errors=("media.unknown",)),
    Route(DELETE, "/v1/media/<media_id:str>", media.delete, "key", "writes",
          query=Narrowing, answers={200: DeletedBody}, errors=("media.unknown", "media.in_use")),
    Route(GET, "/v1/profiles", profiles.listing, "read", "reads", answers={200: ProfileList}),
    Route(POST, "/v1/profiles", profiles.create, "session", "writes",
          body=ProfileRequest, answers={201: ProfileBody}, errors=("profile.slug.unique",), needs=MANAGERS),
    Route(PATCH, "/v1/profiles/<profile_id:str>", profiles.rename, "session", "writes",
          query=Narrowing, body=ProfileRequest, answers={200: ProfileBody},
          errors=("not_found", "profile.slug.unique"), needs=MANAGERS),
    Route(DELETE, "/v1/profiles/<profile_id:str>", profiles.delete, "session", "writes",
          query=Narrowing, answers={200: DeletedBody}, errors=("not_found", "profile.delete.not_empty"),
          needs=MANAGERS),
    Route(GET, "/v1/api-keys", keys.listing, "session", "reads", answers={200: KeyList}, needs=MANAGERS),
    Route(POST, "/v1/api-keys", keys.mint, "session", "writes",
          body=KeyRequest, answers={201: MintedKeyBody}, errors=("not_found",), needs=MANAGERS),
    Route(DELETE, "/v1/api-keys/<key_id:str>", keys.revoke, "session", "writes",
          query=Narrowing, answers={200: RevokedKeyBody}, errors=("not_found",), needs=MANAGERS),
    Route(GET, "/v1/platforms", catalogue.list_platforms, answers={200: PlatformList}),
    Route(GET, "/v1/rules", catalogue.list_rules, answers={200: RuleList}),
    Route(GET, "/v1/errors", catalogue.list_errors, answers={200: CodeList}),
    Route(GET, "/healthz", health.healthz, answers={200: HealthBody}),
    Route(GET, "/readyz", health.readyz, answers={200: ReadyBody}, errors=("storage.unavailable",)),
    Route(GET, "/", people.home, "page"),
    Route(GET, "/login", people.login_form),
    Route(POST, "/login", people.login),
    Route(POST, "/logout", people.logout, "page"),
    Route(POST, "/logout/everywhere", people.logout_everywhere, "page"),
    Route(GET, "/setup/<token:str>", people.setup_form),
    Route(POST, "/setup/<token:str>", people.setup),
    Route(GET, "/connect/<platform:str>", connect.form, "page", before=accounts.before, needs=MANAGERS),
    Route(POST, "/connect/<platform:str>", connect.credentials, "page", before=accounts.before, needs=MANAGERS),
    Route(GET, "/connect/<platform:str>/callback", connect.callback, "page", before=accounts.before, needs=MANAGERS),
    Route(POST, "/accounts/<account_id:str>/disconnect", connect.disconnect, "page", needs=MANAGERS),
    Route(POST, "/keys", people.mint_key, "page", needs=MANAGERS),
    Route(POST, "/keys/<key_id:str>/revoke", people.revoke_key, "page", needs=MANAGERS),
    Route(POST, "/profiles", people.create_profile, "page", needs=MANAGERS),
    Route(GET, "/openapi.json", reference.openapi, constant=True),
    Route(GET, "/docs", docs.index, constant=True),
    Route(GET, "/docs/reference", reference.page, constant=True),
    Route(GET, "/docs/events", reference.events, constant=True),
    Route(GET, "/docs/settings", docs.settings, constant=True),
    Route(GET, "/docs/errors/<code:str>", docs.error, constant=True),
    Route(GET, "/docs/rules/<rule:path>", docs.rule, constant=True),
    Route(GET, "/static/<name:str>", docs.static, constant=True),
    Route(GET, "/media/<media_id:str>/<name:str>", media.public),
    Route(GET, "/oauth/client-metadata.json", client.metadata),
    Route(GET, "/oauth/jwks.json", client.jwks),
)
# fmt: on

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
    """The Sanic application over an open service. It starts nothing; whoever does has an engine beside it."""
    settings = service.runtime.settings
    config = Config(env_prefix=None)  # none of Sanic's settings come from the environment
    config.update(
        {
            "ACCESS_LOG": False,
            "FALLBACK_ERROR_FORMAT": "json",
            "REQUEST_MAX_SIZE": max(settings.media.max_bytes + 1024 * 1024, bodies.UNREAD_MAX),
            "REQUEST_TIMEOUT": 15,
            "RESPONSE_TIMEOUT": 90,
            "KEEP_ALIVE_TIMEOUT": 75,
            "MOTD": False,
            "CONNECTIONS_MAX": connections_max(settings.publishing.threads + settings.publishing.workers),
            "TOUCHUP": False,  # Sanic would rewrite its own classes, which fails for a second app in one process
        }
    )
    app = Sanic(name, config=config, configure_logging=False, strict_slashes=True, request_class=http.Arrival)
    app.ctx.reference = Reference(ROUTES, service)
    door = Door(service, engine)
    _add_routes(app, door)
    _add_middleware(app, service)
    _drain_at_the_stop(app, service, door)
    return app


def _add_routes(app: Sanic, door: Door) -> None:  # type: ignore[type-arg]
    methods: dict[str, list[str]] = defaultdict(list)
    for route in ROUTES:
        handler = door.endpoint(route)
        names = ["GET", "HEAD"] if route.method == "GET" else [route.method]
        methods[route.path] += names
        _add_route(app, handler, route.path, names, handler.__name__)
    for number, (path, names) in enumerate(methods.items()):
        _add_route(app, _options([*names, "OPTIONS"]), path, ["OPTIONS"], f"options_{number}")


def _add_route(app: Sanic, handler: Handler, path: str, methods: list[str], name: str) -> None:  # type: ignore[type-arg]
    # A route that is not streamed would gather bodies of up to REQUEST_MAX_SIZE before anybody is asked for a key.
    # Without a format Sanic would read it off the handler's source, which is half the time of a start.
    app.add_route(handler, path, methods=methods, stream=True, name=name, error_format="json")


def _options(names: list[str]):  # type: ignore[no-untyped-def]
    async def answer(request: Request, **_: str) -> HTTPResponse:
        return HTTPResponse(None, 204, {"Allow": ", ".join(sorted(names))})

    return answer


def _add_middleware(app: Sanic, service: Service) -> None:  # type: ignore[type-arg]
    @app.on_request
    async def name_it(request: Request) -> None:
        request.ctx.request_id = http.request_id(service, request)
        request.ctx.began = service.runtime.clock.monotonic()
        if request.ctx.bad_target:
            raise refuse("http.request")  # it must not be answered as the address that stands in for it
        edge.check_host(service, request)

    @app.on_response  # type: ignore[untyped-decorator]
    async def dress(request: Request, response: HTTPResponse) -> None:
        request_id = getattr(request.ctx, "request_id", None) or http.request_id(service, request)
        response.headers["X-Request-Id"] = request_id
        response.headers.update(rate_headers(service, request))
        for header, value in SECURITY_HEADERS.items():
            response.headers.setdefault(header, value)
        response.headers.setdefault("Cache-Control", "no-store")
        if service.base_url.startswith("https:"):
            response.headers["Strict-Transport-Security"] = "max-age=31536000"
        request.ctx.request_id = request_id
        trail.tell(service, request, response)

    @app.exception(Exception)
    async def explain(request: Request, error: Exception) -> HTTPResponse:
        return errors.answer(service, request, error)


def _drain_at_the_stop(app: Sanic, service: Service, door: Door) -> None:  # type: ignore[type-arg]
    @app.before_server_stop
    async def drain(_: Sanic) -> None:  # type: ignore[type-arg]
        door.close()
        await door.drained(DRAIN_SECONDS)
        service.hub.close()  # who still waits is answered as if its time were over
        await door.drained(ANSWER_SECONDS)
