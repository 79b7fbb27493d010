"""Connecting an account in the browser: authorization, callback, and choice of the account."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.accounts import accounts, boards, client_metadata, connect
from socialpub.domain.accounts.connect import LoginResult
from socialpub.domain.identity import dashboard_session
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.accounts import CompleteRequest, ConnectRequest
from socialpub.platforms.contract import Platform
from socialpub.web.dashboard.parts.layout import keep_form, redirect, show
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext

CALLBACK_PARAMETERS = {
    "state": "state",
    "code": "code",
    "iss": "iss",
    "choiceId": "choice",
}  # fields of the request by the callback's query parameters


async def show_form(call: RequestContext) -> HandlerResponse:
    """GET /connect/{platform}: a link to the platform, or a form with the fields that it needs.

    Without `profile`: the profile selected in the menu, or the only one; otherwise redirect to the list of accounts.
    """
    platform, args = _enabled_platform(call), _read_query(call, "handle")
    if "profileId" not in args:
        session = await call.service.read(lambda: dashboard_session.load_current(call.scope))
        if session.profile is None and len(session.profiles) > 1:
            return redirect("/accounts#connect")
        args["profileId"] = await call.service.read(lambda: connect.choose_profile(session.scope, None))
    profile = args["profileId"]
    try:
        request = validation.parse_object(ConnectRequest, args)
        begun = await connect.push_login(call.service, call.scope, platform.name, request.handle, request.profile_id)
    except ApiError as error:
        if "handle" not in args:
            raise
        return await _form(keep_form(call, error, args), platform, connect.describe_credentials(platform), profile)
    started = await actions.perform(call.actor, connect.start, platform.name, request.profile_id, begun)
    return await _form(call, platform, started["descriptor"], profile)


def _read_query(call: RequestContext, *names: str) -> dict[str, str]:
    """Return these query parameters without the empty ones."""
    given = {name: str(call.request.args.get(name) or "") for name in names}
    given["profileId"] = str(call.request.args.get("profile") or "")
    return {name: value for name, value in given.items() if value}


async def _form(call: RequestContext, platform: Platform, descriptor: Any, profile: str | None) -> HandlerResponse:
    named = descriptor["type"] == "credentials" and client_metadata.can_push_login(call.service, platform)
    values = {"descriptor": descriptor, "profile": profile or "", "by_name": named}
    return await _page(call, "start", platform, **values)


async def submit_credentials(call: RequestContext) -> HandlerResponse:
    """POST /connect/{platform}: the fields of the form."""
    platform = _enabled_platform(call)
    given = forms.parse(call)
    profile = given.get("profile") or None
    fields = {field.name: given[field.name] for field in platform.credentials if given.get(field.name)}
    try:
        request = validation.parse_object(CompleteRequest, fields | ({"profileId": profile} if profile else {}))
        offer = await connect.complete(call.actor, platform.name, request)
    except ApiError as error:
        return await _form(keep_form(call, error, given), platform, connect.describe_credentials(platform), profile)
    return await _finish(call, platform, "", offer)


async def complete_login(call: RequestContext) -> HandlerResponse:
    """GET /connect/{platform}/callback: the platform's redirect, or a choice of accounts.

    The choices of a login can be loaded repeatedly, for "back" and "reload". The state replaces a CSRF token: only our
    page and the platform know it, and it belongs to this session.
    """
    platform = _enabled_platform(call)
    args, again = call.request.args, {"address": f"/connect/{platform.name}", "text": "Connect again"}
    call.request.ctx.error_link = again
    if profile := await connect.find_profile(call.service, call.scope, platform.name, args.get("state") or ""):
        again["address"] += f"?profile={profile}"
    given = {name: args.get(alias) for name, alias in CALLBACK_PARAMETERS.items() if args.get(alias)}
    request = validation.parse_object(CompleteRequest, given)
    state = request.state or ""
    if not request.choice_id and (left := await connect.find_choices(call.service, call.scope, platform.name, state)):
        offer = left
    elif request.choice_id or request.code:
        offer = await connect.complete(call.actor, platform.name, request)
    else:
        said = args.get("error_description") or args.get("error_message") or args.get("error") or "it sent no code."
        raise await connect.decline(call.service, call.scope, platform.name, state, str(said)[:300])
    return await _finish(call, platform, state, offer)


async def _finish(call: RequestContext, platform: Platform, state: str, offer: LoginResult) -> HandlerResponse:
    body = await actions.perform(call.actor, connect.store_result, platform.name, offer)
    if "choices" in body:
        return await _page(call, "choose", platform, state=state, choices=body["choices"])
    more = {"state": state} if offer.is_choice else {}
    return redirect(f"/connect/{platform.name}/done?{urlencode({'account': str(body['id'])} | more)}")


async def show_done(call: RequestContext) -> HandlerResponse:
    """GET /connect/{platform}/done: the connected account."""
    args = call.request.args
    account = await call.service.read(lambda: accounts.get_body(call.scope, str(args.get("account") or "")))
    platform, state = _enabled_platform(call), str(args.get("state") or "")
    has_boards = boards.has_boards(platform.name)
    return await _page(call, "done", platform, account=account, state=state, has_boards=has_boards)


def _enabled_platform(call: RequestContext) -> Platform:
    return connect.get_ready_platform(call.service, call.path_value("platform"))


async def _page(call: RequestContext, template: str, platform: Platform, **values: Any) -> HandlerResponse:
    return await show(call, f"connect/{template}.html", platform=platform, **values)
