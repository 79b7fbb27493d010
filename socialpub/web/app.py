"""The application: the route table on one screen, what every answer carries, and how its requests are drained."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any

from sanic import HTTPResponse
from sanic.config import Config
from sanic.exceptions import RequestCancelled

from socialpub.domain.access.actions import MANAGER_ROLES, OWNER_ROLES
from socialpub.domain.background.engine import BackgroundEngine
from socialpub.domain.context.app_context import AppContext, limit_concurrency
from socialpub.web import error_responses
from socialpub.web.api import (
    accounts,
    billing,
    catalogue,
    events,
    keys,
    media,
    notifications,
    posts,
    profiles,
    webhooks,
)
from socialpub.web.dashboard import accounts as account_pages
from socialpub.web.dashboard import (
    apps,
    audit_log,
    calendar,
    compose,
    connect,
    members,
    organization,
    overview,
    settings,
    sign_in,
    system,
    totp,
)
from socialpub.web.dashboard import media as shelf
from socialpub.web.dashboard import notifications as channels
from socialpub.web.dashboard import posts as postlog
from socialpub.web.dashboard import webhooks as hooks
from socialpub.web.docs import pages, reference
from socialpub.web.http import access_log, request_body
from socialpub.web.http.handler import Route, ServerRequest
from socialpub.web.http.middleware import Middleware
from socialpub.web.http.sanic_overrides import ServerApp, ServerResponse
from socialpub.web.openapi.document import OpenApiDocument
from socialpub.web.ops import health, metrics, oauth_client
from socialpub.web.pipeline import RequestPipeline, make_endpoint
from socialpub.web.server import connections_max

SanicHandler = Callable[[ServerRequest], Coroutine[Any, Any, HTTPResponse]]

POST, GET, PATCH, DELETE = "POST", "GET", "PATCH", "DELETE"

# One line each: method, path, handler, who may, which rate limit, and what the reference says of it, which stands
# beside the handler (`Operation`). What follows from guard, limit and body is added there (`openapi.refusals`).
# fmt: off
ROUTES: tuple[Route, ...] = (
    Route(POST, "/v1/posts", posts.publish, "key", "posts", posts.PUBLISH, takes=request_body.BODY_MAX, waits=True),
    Route(GET, "/v1/posts", posts.list_posts, "read", "reads", posts.LIST, light=True),
    Route(GET, "/v1/posts/<post_id:str>", posts.read, "read", "reads", posts.READ, light=True),
    Route(POST, "/v1/posts/validate", posts.validate, "key", "writes", posts.VALIDATE, takes=request_body.BODY_MAX),
    Route(PATCH, "/v1/posts/<post_id:str>", posts.reschedule, "key", "writes", posts.RESCHEDULE),
    Route(DELETE, "/v1/posts/<post_id:str>", posts.cancel, "key", "writes", posts.CANCEL),
    Route(POST, "/v1/posts/<post_id:str>/retry", posts.retry, "key", "writes", posts.RETRY),
    Route(POST, "/v1/posts/<post_id:str>/settle", posts.settle, "key", "writes", posts.SETTLE),
    Route(GET, "/v1/accounts", accounts.list_accounts, "read", "reads", accounts.LIST, light=True),
    Route(GET, "/v1/accounts/<account_id:str>", accounts.read, "read", "reads", accounts.READ, light=True),
    Route(POST, "/v1/accounts/connect/<platform:str>", accounts.start, "session", "writes", accounts.START,
          before=accounts.check_platform, needs=MANAGER_ROLES),
    Route(POST, "/v1/accounts/connect/<platform:str>/complete", accounts.complete, "session", "writes",
          accounts.COMPLETE, before=accounts.check_platform, needs=MANAGER_ROLES),
    Route(DELETE, "/v1/accounts/<account_id:str>", accounts.disconnect, "session", "writes", accounts.DISCONNECT,
          needs=MANAGER_ROLES, proof=True),
    Route(GET, "/v1/accounts/<account_id:str>/pinterest/boards", accounts.list_boards, "read", "reads",
          accounts.LIST_BOARDS),
    Route(PATCH, "/v1/accounts/<account_id:str>/pinterest/default-board", accounts.choose_board, "key", "writes",
          accounts.CHOOSE_BOARD),
    Route(POST, "/v1/media", media.upload, "key", "media", media.UPLOAD, receive=media.receive),
    Route(GET, "/v1/media", media.list_media, "read", "reads", media.LIST, light=True),
    Route(GET, "/v1/media/<media_id:str>", media.read, "read", "reads", media.READ, light=True),
    Route(DELETE, "/v1/media/<media_id:str>", media.delete, "key", "writes", media.DELETE),
    Route(GET, "/v1/profiles", profiles.list_profiles, "read", "reads", profiles.LIST, light=True),
    Route(POST, "/v1/profiles", profiles.create, "session", "writes", profiles.CREATE, needs=MANAGER_ROLES),
    Route(PATCH, "/v1/profiles/<profile_id:str>", profiles.rename, "session", "writes", profiles.RENAME,
          needs=MANAGER_ROLES),
    Route(DELETE, "/v1/profiles/<profile_id:str>", profiles.delete, "session", "writes", profiles.DELETE,
          needs=MANAGER_ROLES, proof=True),
    Route(GET, "/v1/api-keys", keys.list_keys, "session", "reads", keys.LIST, needs=MANAGER_ROLES, light=True),
    Route(POST, "/v1/api-keys", keys.mint, "session", "writes", keys.MINT, needs=MANAGER_ROLES, proof=True),
    Route(DELETE, "/v1/api-keys/<key_id:str>", keys.revoke, "session", "writes", keys.REVOKE, needs=MANAGER_ROLES,
          proof=True),
    Route(GET, "/v1/events", events.list_events, "read", "reads", events.LIST, light=True),
    Route(GET, "/v1/webhook-endpoints", webhooks.list_endpoints, "read", "reads", webhooks.LIST, light=True),
    Route(POST, "/v1/webhook-endpoints", webhooks.register, "key", "writes", webhooks.REGISTER),
    Route(GET, "/v1/webhook-endpoints/<endpoint_id:str>", webhooks.read, "read", "reads", webhooks.READ, light=True),
    Route(PATCH, "/v1/webhook-endpoints/<endpoint_id:str>", webhooks.change, "key", "writes", webhooks.CHANGE),
    Route(DELETE, "/v1/webhook-endpoints/<endpoint_id:str>", webhooks.delete, "key", "writes", webhooks.DELETE),
    Route(POST, "/v1/webhook-endpoints/<endpoint_id:str>/test", webhooks.test, "key", "writes", webhooks.TEST),
    Route(POST, "/v1/webhook-endpoints/<endpoint_id:str>/rotate-secret", webhooks.rotate, "key", "writes",
          webhooks.ROTATE),
    Route(POST, "/v1/webhook-endpoints/<endpoint_id:str>/redeliver", webhooks.redeliver_since, "key", "writes",
          webhooks.REDELIVER_SINCE),
    Route(GET, "/v1/webhook-deliveries", webhooks.list_deliveries, "read", "reads", webhooks.LIST_DELIVERIES,
          light=True),
    Route(GET, "/v1/webhook-deliveries/<delivery_id:str>", webhooks.read_delivery, "read", "reads",
          webhooks.READ_DELIVERY,
          light=True),
    Route(POST, "/v1/webhook-deliveries/<delivery_id:str>/redeliver", webhooks.redeliver, "key", "writes",
          webhooks.REDELIVER),
    Route(GET, "/v1/notifications", notifications.list_notifications, "read", "reads",
          notifications.LIST_NOTIFICATIONS, light=True),
    Route(GET, "/v1/notification-channels", notifications.list_channels, "read", "reads", notifications.LIST,
          light=True),
    Route(POST, "/v1/notification-channels", notifications.create, "key", "writes", notifications.CREATE),
    Route(GET, "/v1/notification-channels/<channel_id:str>", notifications.read, "read", "reads", notifications.READ,
          light=True),
    Route(PATCH, "/v1/notification-channels/<channel_id:str>", notifications.change, "key", "writes",
          notifications.CHANGE),
    Route(DELETE, "/v1/notification-channels/<channel_id:str>", notifications.delete, "key", "writes",
          notifications.DELETE),
    Route(POST, "/v1/notification-channels/<channel_id:str>/test", notifications.test, "key", "writes",
          notifications.TEST),
    Route(GET, "/v1/platforms", catalogue.list_platforms, says=catalogue.LIST_PLATFORMS, light=True),
    Route(GET, "/v1/rules", catalogue.list_rules, says=catalogue.LIST_RULES, light=True),
    Route(GET, "/v1/errors", catalogue.list_errors, says=catalogue.LIST_ERRORS, light=True),
    Route(GET, "/healthz", health.healthz, says=health.HEALTHZ, light=True),
    Route(GET, "/readyz", health.readyz, says=health.READYZ),
    Route(GET, "/metrics", metrics.read_metrics),
    Route(GET, "/", overview.show_overview, "page"),
    Route(GET, "/overview/now", overview.show_now, "page", light=True),
    Route(POST, "/overview/settle", overview.settle, "page"),
    Route(POST, "/overview/retry", overview.retry, "page"),
    Route(GET, "/overview/cancel", overview.confirm_cancel, "page", needs=MANAGER_ROLES),
    Route(POST, "/overview/cancel", overview.cancel, "page", needs=MANAGER_ROLES),
    Route(POST, "/overview/resume", overview.resume, "page", needs=MANAGER_ROLES),
    Route(GET, "/overview/compare", overview.confirm_resume_after_restore, "page", needs=MANAGER_ROLES),
    Route(POST, "/overview/compare", overview.resume_after_restore, "page", needs=MANAGER_ROLES),
    Route(GET, "/login", sign_in.show_login),
    Route(POST, "/login", sign_in.login, takes=request_body.SMALL_BODY_MAX),
    Route(POST, "/logout", sign_in.logout, "page"),
    Route(POST, "/logout/everywhere", sign_in.logout_everywhere, "page"),
    Route(GET, "/setup/<token:str>", sign_in.show_setup),
    Route(POST, "/setup/<token:str>", sign_in.setup),
    Route(GET, "/invited/<token:str>", sign_in.show_invitation),
    Route(POST, "/invited/<token:str>", sign_in.accept_invitation),
    Route(GET, "/connect/<platform:str>", connect.show_form, "page", before=accounts.check_platform,
          needs=MANAGER_ROLES),
    Route(POST, "/connect/<platform:str>", connect.submit_credentials, "page", before=accounts.check_platform,
          needs=MANAGER_ROLES),
    Route(GET, "/connect/<platform:str>/callback", connect.complete_login, "page", before=accounts.check_platform,
          needs=MANAGER_ROLES),
    Route(GET, "/connect/<platform:str>/done", connect.show_done, "page", before=accounts.check_platform,
          needs=MANAGER_ROLES),
    Route(GET, "/accounts", account_pages.list_accounts, "page"),
    Route(GET, "/accounts/<account_id:str>", account_pages.read, "page"),
    Route(GET, "/accounts/<account_id:str>/board", account_pages.show_boards, "page", needs=MANAGER_ROLES),
    Route(POST, "/accounts/<account_id:str>/board", account_pages.choose_board, "page", needs=MANAGER_ROLES),
    Route(GET, "/accounts/<account_id:str>/disconnect", account_pages.confirm_disconnect, "page", needs=MANAGER_ROLES),
    Route(POST, "/accounts/<account_id:str>/disconnect", account_pages.disconnect, "page", needs=MANAGER_ROLES),
    Route(GET, "/posts", postlog.list_posts, "page"),
    Route(GET, "/posts/<post_id:str>", postlog.read, "page"),
    Route(GET, "/posts/<post_id:str>/cancel", postlog.confirm_cancel, "page"),
    Route(POST, "/posts/<post_id:str>/cancel", postlog.cancel, "page"),
    Route(GET, "/posts/<post_id:str>/settle", postlog.confirm_settle, "page"),
    Route(POST, "/posts/<post_id:str>/settle", postlog.settle, "page"),
    Route(POST, "/posts/<post_id:str>/move", postlog.reschedule, "page"),
    Route(POST, "/posts/<post_id:str>/retry", postlog.retry, "page"),
    Route(GET, "/compose", compose.show_form, "page"),
    Route(POST, "/compose", compose.submit, "page", takes=compose.BODY_MAX, fields=compose.FIELDS_MAX),
    Route(POST, "/compose/media", compose.upload, "page", receive=compose.receive),
    Route(GET, "/webhooks", hooks.list_endpoints, "page", needs=MANAGER_ROLES),
    Route(POST, "/webhooks", hooks.register, "page", needs=MANAGER_ROLES),
    Route(GET, "/webhooks/<endpoint_id:str>", hooks.read, "page", needs=MANAGER_ROLES),
    Route(POST, "/webhooks/<endpoint_id:str>/test", hooks.test, "page", needs=MANAGER_ROLES),
    Route(POST, "/webhooks/<endpoint_id:str>/switch", hooks.switch, "page", needs=MANAGER_ROLES),
    Route(POST, "/webhooks/<endpoint_id:str>/redeliver", hooks.redeliver_failed, "page", needs=MANAGER_ROLES),
    Route(GET, "/webhooks/<endpoint_id:str>/rotate", hooks.confirm_rotate, "page", needs=MANAGER_ROLES),
    Route(POST, "/webhooks/<endpoint_id:str>/rotate", hooks.rotate, "page", needs=MANAGER_ROLES),
    Route(GET, "/webhooks/<endpoint_id:str>/delete", hooks.confirm_delete, "page", needs=MANAGER_ROLES),
    Route(POST, "/webhooks/<endpoint_id:str>/delete", hooks.delete, "page", needs=MANAGER_ROLES),
    Route(GET, "/deliveries/<delivery_id:str>", hooks.read_delivery, "page", needs=MANAGER_ROLES),
    Route(POST, "/deliveries/<delivery_id:str>/redeliver", hooks.redeliver, "page", needs=MANAGER_ROLES),
    Route(GET, "/media", shelf.list_media, "page"),
    Route(GET, "/library/<media_id:str>/delete", shelf.confirm_delete, "page"),
    Route(POST, "/library/<media_id:str>/delete", shelf.delete, "page"),
    Route(GET, "/calendar", calendar.show_this_month, "page"),
    Route(GET, "/calendar/month/<month:str>", calendar.show_month, "page"),
    Route(GET, "/calendar/week", calendar.show_this_week, "page"),
    Route(GET, "/calendar/week/<day:str>", calendar.show_week, "page"),
    Route(POST, "/profile", settings.choose_profile, "page"),
    Route(GET, "/settings", settings.show_own, "page"),
    Route(POST, "/settings/zone", settings.choose_zone, "page"),
    Route(POST, "/settings/password", settings.change_password, "page"),
    Route(GET, "/settings/totp", totp.read, "page"),
    Route(POST, "/settings/totp", totp.turn_on, "page"),
    Route(POST, "/settings/totp/codes", totp.renew_codes, "page"),
    Route(POST, "/settings/totp/off", totp.turn_off, "page"),
    Route(POST, "/settings/sessions/end", settings.end_session, "page"),
    Route(GET, "/settings/members", members.list_members, "page", needs=MANAGER_ROLES),
    Route(POST, "/settings/members", members.invite, "page", needs=OWNER_ROLES),
    Route(GET, "/settings/members/<member_id:str>", members.read, "page", needs=OWNER_ROLES),
    Route(POST, "/settings/members/<member_id:str>", members.change_role, "page", needs=OWNER_ROLES),
    Route(POST, "/settings/members/<member_id:str>/remove", members.remove, "page", needs=OWNER_ROLES),
    Route(POST, "/settings/invitations/<invitation_id:str>/withdraw", members.withdraw, "page", needs=OWNER_ROLES),
    Route(GET, "/settings/log", audit_log.show_log, "page", needs=MANAGER_ROLES),
    Route(GET, "/settings/keys", settings.list_keys, "page", needs=MANAGER_ROLES),
    Route(POST, "/settings/keys", settings.mint_key, "page", needs=MANAGER_ROLES),
    Route(GET, "/settings/keys/<key_id:str>/revoke", settings.confirm_revoke, "page", needs=MANAGER_ROLES),
    Route(POST, "/settings/keys/<key_id:str>/revoke", settings.revoke_key, "page", needs=MANAGER_ROLES),
    Route(GET, "/settings/system", system.show_system, "page", needs=MANAGER_ROLES),
    Route(GET, "/settings/notifications", channels.list_channels, "page", needs=MANAGER_ROLES),
    Route(GET, "/settings/notifications/new/<kind:str>", channels.show_new, "page", needs=MANAGER_ROLES),
    Route(POST, "/settings/notifications/new/<kind:str>", channels.add, "page", needs=MANAGER_ROLES),
    Route(GET, "/settings/notifications/<channel_id:str>", channels.read, "page", needs=MANAGER_ROLES),
    Route(POST, "/settings/notifications/<channel_id:str>/test", channels.test, "page", needs=MANAGER_ROLES),
    Route(POST, "/settings/notifications/<channel_id:str>/change", channels.change, "page", needs=MANAGER_ROLES),
    Route(POST, "/settings/notifications/<channel_id:str>/switch", channels.switch, "page", needs=MANAGER_ROLES),
    Route(GET, "/settings/notifications/<channel_id:str>/target", channels.edit_target, "page", needs=MANAGER_ROLES),
    Route(POST, "/settings/notifications/<channel_id:str>/target", channels.change_target, "page", needs=MANAGER_ROLES),
    Route(GET, "/settings/notifications/<channel_id:str>/delete", channels.confirm_delete, "page", needs=MANAGER_ROLES),
    Route(POST, "/settings/notifications/<channel_id:str>/delete", channels.delete, "page", needs=MANAGER_ROLES),
    Route(GET, "/settings/organization", organization.read, "page", needs=MANAGER_ROLES),
    Route(POST, "/settings/organization", organization.rename, "page", needs=MANAGER_ROLES),
    Route(GET, "/settings/organization/delete", organization.confirm_delete, "page", needs=OWNER_ROLES),
    Route(POST, "/settings/organization/delete", organization.delete, "page", needs=OWNER_ROLES),
    Route(GET, "/settings/profiles", settings.list_profiles, "page"),
    Route(POST, "/settings/profiles", settings.create_profile, "page", needs=MANAGER_ROLES),
    Route(GET, "/settings/profiles/<profile_id:str>", settings.edit_profile, "page", needs=MANAGER_ROLES),
    Route(POST, "/settings/profiles/<profile_id:str>", settings.rename_profile, "page", needs=MANAGER_ROLES),
    Route(POST, "/settings/profiles/<profile_id:str>/delete", settings.delete_profile, "page", needs=MANAGER_ROLES),
    Route(GET, "/settings/apps", apps.list_apps, "page", needs=OWNER_ROLES),
    Route(GET, "/settings/apps/<platform:str>", apps.show_form, "page", needs=OWNER_ROLES),
    Route(POST, "/settings/apps/<platform:str>", apps.save, "page", needs=OWNER_ROLES),
    Route(POST, "/settings/apps/<platform:str>/check", apps.check, "page", needs=OWNER_ROLES),
    Route(GET, "/settings/apps/<platform:str>/remove", apps.confirm_remove, "page", needs=OWNER_ROLES),
    Route(POST, "/settings/apps/<platform:str>/remove", apps.remove, "page", needs=OWNER_ROLES),
    Route(GET, "/openapi.json", reference.serve_document, constant=True),
    Route(GET, "/docs", pages.show_index, constant=True),
    Route(GET, "/docs/start", pages.show_start, constant=True),
    Route(GET, "/docs/reference", reference.show_index, constant=True),
    Route(GET, "/docs/reference/<part:str>", reference.show_part, constant=True),
    Route(GET, "/docs/events", reference.show_events, constant=True),
    Route(GET, "/docs/settings", pages.show_settings, constant=True),
    Route(GET, "/docs/platforms/<platform:str>", pages.show_platform, constant=True),
    Route(GET, "/docs/errors/<code:str>", pages.show_error, constant=True),
    Route(GET, "/docs/rules/<rule:path>", pages.show_rule, constant=True),
    Route(GET, "/static/<name:str>", pages.serve_static, constant=True),
    Route(POST, "/billing/lemonsqueezy", billing.receive_webhook, takes=request_body.SMALL_BODY_MAX),
    Route(GET, "/media/<media_id:str>/<name:str>", media.download),
    Route(GET, "/oauth/client-metadata.json", oauth_client.read_metadata),
    Route(GET, "/oauth/jwks.json", oauth_client.read_jwks),
)
# fmt: on

DRAIN_SECONDS = 20.0
ANSWER_SECONDS = 2.0


def build_app(service: AppContext, engine: BackgroundEngine) -> ServerApp:
    """The Sanic application over an open service. It starts nothing; whoever does has an engine beside it."""
    configured = service.runtime.settings
    config = Config(env_prefix=None)  # none of Sanic's settings come from the environment
    config.update(
        {
            "ACCESS_LOG": False,
            "AUTO_EXTEND": False,  # no part of it is looked for that is not declared
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
    ServerApp.unregister_app(app)  # Sanic's registry is for processes of its own, and takes a name once
    app.ctx.reference = OpenApiDocument(ROUTES, service)
    app.ctx.routes = ROUTES
    app.ctx.pages = {route.path: route for route in ROUTES if route.method == GET and route.guard == "page"}
    app.ctx.door = RequestPipeline(service, engine)
    _add_routes(app)
    _add_middleware(app, service)
    _add_error_handler(app, service)
    _add_drain(app, service, app.ctx.door)
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
    # A route that is not streamed would gather bodies of up to REQUEST_MAX_SIZE before anybody is asked for a key.
    strict = path != "/"  # with it, Sanic's router fails for `//`
    app.add_route(handler, path, methods, strict_slashes=strict, stream=True, name=name, error_format="json")


def _make_options_handler(names: list[str]) -> SanicHandler:
    allowed = {"Allow": ", ".join(sorted(names))}

    async def answer(_: ServerRequest, **parts: str) -> HTTPResponse:
        return ServerResponse(status=204, headers=allowed)

    return answer


def _add_middleware(app: ServerApp, service: AppContext) -> None:
    middleware = Middleware(service)
    app.register_middleware(middleware.on_request, "request")
    app.register_middleware(middleware.on_response, "response")


def _add_error_handler(app: ServerApp, service: AppContext) -> None:
    @app.exception(Exception)
    async def explain(request: ServerRequest, error: Exception) -> HTTPResponse:
        return await error_responses.respond(service, request, error)

    # Nobody is there to be answered: the status is for the access log.
    app.error_handler.add(
        RequestCancelled, lambda request, error: ServerResponse(status=access_log.CLIENT_CLOSED_REQUEST)
    )


def _add_drain(app: ServerApp, service: AppContext, door: RequestPipeline) -> None:
    @app.before_server_stop
    async def drain(_: ServerApp) -> None:
        door.close()
        await door.drained(DRAIN_SECONDS)
        service.hub.close()  # who still waits is answered as if its time were over
        await door.drained(ANSWER_SECONDS)
