"""Connecting in a browser: the way to a platform, the way back, the choice, and disconnecting."""

from __future__ import annotations

from typing import Any

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.domain.accounts import accounts, connect, public_client
from socialpub.domain.accounts.connect import Offer
from socialpub.platforms.contract import Platform
from socialpub.store.db import Tx
from socialpub.store.rows import AccountRow
from socialpub.web import forms, trail
from socialpub.web.http import Call, Reply
from socialpub.web.pages.people import page, see


async def form(call: Call) -> Reply:
    """GET /connect/{platform}: a link to the platform, or the fields that it wants."""
    platform = _ready(call)
    wanted, handle = call.request.args.get("profile"), call.request.args.get("handle")
    try:
        begun = await connect.invite(call.service, call.scope, platform.name, handle, wanted)
    except ApiError as error:
        if not handle:
            raise
        return _form(call, platform, _fields(platform), wanted, error.message, error.status)
    started = await call.write(lambda tx: connect.start(call.service, tx, call.scope, platform.name, wanted, begun))
    return _form(call, platform, started["descriptor"], wanted)


def _fields(platform: Platform) -> dict[str, Any]:
    return {"type": "credentials", "fields": [vars(field) for field in platform.credentials]}


def _form(
    call: Call,
    platform: Platform,
    descriptor: dict[str, Any],
    profile: str | None,
    problem: str = "",
    status: int = 200,
) -> Reply:
    named = descriptor["type"] == "credentials" and public_client.can_invite(call.service, platform)
    values = {"descriptor": descriptor, "profile": profile or "", "problem": problem, "by_name": named}
    return _page(call, "start", platform, status, **values)


async def credentials(call: Call) -> Reply:
    """POST /connect/{platform}: the fields of the form."""
    platform = _ready(call)
    given = forms.fields(call)
    profile = given.get("profile") or None
    fields = {field.name: given.get(field.name, "") for field in platform.credentials}
    try:
        offer = await connect.by_fields(call.service, call.scope, platform.name, fields, profile)
    except ApiError as error:
        return _form(call, platform, _fields(platform), profile, error.message, error.status)
    return await _finished(call, platform, "", offer)


async def callback(call: Call) -> Reply:
    """GET /connect/{platform}/callback: back from the platform with a code or a refusal, or with a choice.

    What a login has left to choose from is shown as often as it is asked for: "back" and "reload" ask again. The state
    is as good as a CSRF token: only our own page and the platform know it, and it belongs to this session.
    """
    platform = _ready(call)
    call.request.ctx.way_on = {"address": f"/connect/{platform.name}", "text": "Connect again"}
    asked = call.request.args
    state, code, choice = (str(asked.get(name) or "") for name in ("state", "code", "choice"))
    if choice:
        offer = await connect.by_choice(call.service, call.scope, platform.name, state, choice)
    elif left := await connect.offered(call.service, call.scope, platform.name, state):
        offer = left
    elif code:
        offer = await connect.by_code(call.service, call.scope, platform.name, state, code, asked.get("iss"))
    else:
        said = asked.get("error_description") or asked.get("error_message") or asked.get("error") or "it sent no code."
        raise await connect.declined(call.service, call.scope, platform.name, state, str(said)[:300])
    return await _finished(call, platform, state, offer)


async def _finished(call: Call, platform: Platform, state: str, offer: Offer) -> Reply:
    def store(tx: Tx) -> Any:
        _, made = connect.store(call.service, tx, call.scope, platform.name, offer)
        trail.record(call, tx, made.get("id"))
        return made

    body = await call.write(store)
    if "choices" in body:
        return _page(call, "choose", platform, state=state, choices=body["choices"])
    return _page(call, "done", platform, account=body, state=state, more=offer.is_choice)


async def disconnect(call: Call) -> Reply:
    """POST /accounts/{id}/disconnect."""
    account = call.path_value("account_id")

    def end(tx: Tx) -> AccountRow:
        trail.record(call, tx, account)
        return accounts.disconnect(call.service, tx, call.scope, account, call.request_id)

    await connect.revoke(call.service, await call.write(end))
    return see("/#accounts")


def _ready(call: Call) -> Platform:
    return connect.ready(call.service, call.path_value("platform"))


def _page(call: Call, template: str, platform: Platform, status: int = 200, **values: Any) -> Reply:
    return page(
        f"connect/{template}.html",
        status,
        csrf_token=call.scope.csrf,
        role=call.scope.role,
        platform=platforms.PLATFORMS[platform.name],
        **values,
    )
