"""Notification channels: targets, event types, and sent messages."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args
from urllib.parse import urlencode

from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.access.actor import Actor
from socialpub.domain.delivery.notifications import channels, history, message_texts
from socialpub.domain.events.notification_queue import DEFAULT_TYPES
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.events import EVENTS
from socialpub.domain.schemas.notifications import (
    PAUSED_TYPE,
    ChannelChange,
    ChannelRequest,
    ChannelTestRequest,
    NotificationsQuery,
)
from socialpub.domain.schemas.webhooks import DESCRIPTION_MAX
from socialpub.store.rows import DeliveryStatus
from socialpub.web.api.notifications import send_test
from socialpub.web.dashboard.parts.layout import (
    explain,
    keep_form,
    redirect_with_flash,
    require_form_error,
    require_proof,
    show,
)
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext

PAGE_PATH = "/settings/notifications"
STATUSES: tuple[str, ...] = get_args(DeliveryStatus)
RESPONSE_SHOWN_MAX = 200  # characters of a receiver's response to a test
PAGE_SIZE = 25


@dataclass(frozen=True)
class ChannelField:
    """A field of a channel's form. `secret` values are never shown again."""

    name: str
    label: str
    hint: str
    wrong: str
    required: bool = True
    secret: bool = False

    @property
    def id(self) -> str:
        """The field's name in the form. A secret's name keeps it out of saved forms."""
        return f"secret_{self.name}" if self.secret else self.name


@dataclass(frozen=True)
class ChannelKind:
    """A kind of channel: its description, setup instructions and fields."""

    label: str
    about: str
    steps: tuple[str, ...]
    fields: tuple[ChannelField, ...]


_INVALID_URL = "This is not a valid address. Copy all of it, starting with https://."
KINDS = {
    "email": ChannelKind(
        "E-mail",
        "A short plain-text message to one address.",
        ("Messages are sent through the mail server in this server's settings (`[smtp]`).",),
        (ChannelField("address", "Address", "", "This is not a valid e-mail address."),),
    ),
    "ntfy": ChannelKind(
        "ntfy",
        "A push message to a phone or a desktop.",
        (
            "Install the ntfy app or open ntfy.sh, and subscribe to a topic.",
            "Anyone who knows a topic's name can read it. Choose a name that is hard to guess.",
        ),
        (
            ChannelField(
                "topic",
                "Topic",
                "Letters, digits, - and _.",
                "A topic must have 1 to 64 letters, digits, - or _.",
                secret=True,
            ),
            ChannelField("url", "Server", "Default: https://ntfy.sh.", "This is not a valid server address.", False),
            ChannelField(
                "token",
                "Access token",
                "Only if the topic requires one.",
                "This is not a valid token.",
                False,
                secret=True,
            ),
        ),
    ),
    "slack": ChannelKind(
        "Slack",
        "A message in a Slack channel. Also works with Mattermost and Rocket.Chat.",
        (
            "In Slack, create an app at api.slack.com/apps and turn on **Incoming Webhooks**.",
            "Add a webhook to the channel and copy its URL.",
        ),
        (ChannelField("url", "Webhook URL", "https://hooks.slack.com/services/…", _INVALID_URL, secret=True),),
    ),
    "discord": ChannelKind(
        "Discord",
        "A message in a Discord channel.",
        (
            "In Discord, open the channel's settings, then **Integrations**, **Webhooks**, **New Webhook**.",
            "Select **Copy Webhook URL**.",
        ),
        (ChannelField("url", "Webhook URL", "https://discord.com/api/webhooks/…", _INVALID_URL, secret=True),),
    ),
    "telegram": ChannelKind(
        "Telegram",
        "A message from a bot, to you or to a group.",
        (
            "In Telegram, send `/newbot` to @BotFather and copy the token from the reply.",
            "Send the bot a message, or add it to the group.",
            "@userinfobot shows your chat ID. The ID of a group begins with a minus.",
        ),
        (
            ChannelField(
                "botToken",
                "Bot token",
                "The token from @BotFather.",
                "A bot token is a number, a colon and a string of characters.",
                secret=True,
            ),
            ChannelField("chatId", "Chat", "Its ID, or the @name of a public channel.", "Enter a chat ID or an @name."),
        ),
    ),
}


def _describe_type(type_: str) -> str:
    """Return a short description of an event type's message."""
    title = message_texts.TEMPLATES[type_].title.format_map({"platform": "a platform"})
    return title[0].upper() + title[1:]


TYPES = {f"tell-{number}": (name, _describe_type(name)) for number, name in enumerate((*EVENTS, PAUSED_TYPE))}
"""The types of events by their boxes in a form."""


# --- All channels ----------------------------------------------------------------------------------------------------


async def list_channels(call: RequestContext) -> HandlerResponse:
    """GET /settings/notifications."""
    return await show(
        call, "channels/list.html", lambda session: {"channels": channels.list_bodies(call.scope)}, kinds=KINDS
    )


async def show_new(call: RequestContext) -> HandlerResponse:
    """GET /settings/notifications/new/{kind}."""
    kind = _kind(call.path_value("kind"))
    return await show(
        call,
        "channels/new.html",
        name=call.path_value("kind"),
        kind=kind,
        problems=_problems(kind, call.form_error),
        **_type_choices(),
    )


def _kind(name: str) -> ChannelKind:
    if name not in KINDS:
        raise ApiError("not_found", "There is no such kind of channel.")
    return KINDS[name]


def _type_choices() -> dict[str, Any]:
    needed = [said for name, said in TYPES.values() if name in DEFAULT_TYPES]
    return {"types": TYPES, "needed": needed, "description_max": DESCRIPTION_MAX}


async def add(call: RequestContext) -> HandlerResponse:
    """POST /settings/notifications/new/{kind}."""
    form, kind = forms.parse(call), call.path_value("kind")
    given: dict[str, Any] = {
        "to": _target(kind, form),
        "events": _chosen_types(form),
        "description": form.get("description", ""),
    }
    try:
        _check_types(form)
        request = validation.parse_object(ChannelRequest, given)
        await channels.check_target(call.service, call.scope.organization, request.to)
        made = await actions.perform(await _actor_for(call, form.get("of", "")), channels.create, request)
    except ApiError as error:
        return await show_new(keep_form(call, require_form_error(error), form))
    return redirect_with_flash(call, f"{PAGE_PATH}/{made['id']}", "Channel added. Send a test to check that it works.")


def _target(kind: str, form: Mapping[str, str]) -> dict[str, str]:
    given = {field.name: form.get(field.id, "").strip() for field in _kind(kind).fields}
    required = {field.name for field in _kind(kind).fields if field.required}
    return {"kind": kind} | {name: value for name, value in given.items() if value or name in required}


async def _actor_for(call: RequestContext, profile: str) -> Actor:
    """Return the caller as an actor for the organization or one of its profiles."""
    if not profile:
        return call.actor
    await call.service.read(lambda: profiles.check_profile(call.scope, profile))
    return call.actor._replace(scope=replace(call.scope, profile=profile))


def _chosen_types(form: Mapping[str, str]) -> list[str]:
    """Return the chosen event types; none chosen means those that need attention."""
    return [name for box, (name, _) in TYPES.items() if form.get(box)] if form.get("tells") == "chosen" else []


def _check_types(form: Mapping[str, str]) -> None:
    if form.get("tells") == "chosen" and not _chosen_types(form):
        raise ApiError("validation_failed", "Choose at least one event type.", rule="events", remediation="")


def _problems(kind: ChannelKind, error: ApiError | None) -> defaultdict[str, str]:
    """Return the error messages by field, "" for those of no field."""
    found: defaultdict[str, str] = defaultdict(str)
    if error is None:
        return found
    issues = error.platform_response if isinstance(error.platform_response, list) else []
    at = {str(part) for each in issues for part in each["path"]} | {(error.rule or "").split(".")[0]}
    wrong = {field.id: field.wrong for field in kind.fields if field.name in at}
    if (error.rule or "").startswith("webhook.url"):
        wrong = {field.id: explain(error) for field in kind.fields if field.name == "url"}
    found |= wrong or {"events" if error.rule == "events" else "": explain(error)}
    return found


# --- One channel -----------------------------------------------------------------------------------------------------


async def read(call: RequestContext) -> HandlerResponse:
    """GET /settings/notifications/{id}: its messages, filtered by `status`."""
    id, args = call.path_value("channel_id"), call.request.args
    status, cursor = args.get("status") or "", args.get("cursor") or ""

    def read_channel(session: DashboardSession) -> dict[str, Any]:
        channel = channels.to_body(channels.find(call.scope, id))
        rest = {"status": status} if status in STATUSES else {}
        given: dict[str, Any] = {"channelId": id, "limit": PAGE_SIZE, **{name: [value] for name, value in rest.items()}}
        given |= {"cursor": cursor} if cursor else {}
        page = history.load_page(call.service, call.scope, validation.parse_object(NotificationsQuery, given))
        older = urlencode(rest | {"cursor": page["nextCursor"]}) if page["nextCursor"] else None
        kind = KINDS[channel["to"]["kind"]]
        chosen = [box for box, (name, _) in TYPES.items() if name in channel["events"]]
        return {"channel": channel, "kind": kind, "messages": page["data"], "older": older, "chosen": chosen}

    return await show(
        call,
        "channels/channel.html",
        read_channel,
        problem=explain(call.form_error),
        status_wanted=status,
        is_later=bool(cursor),
        is_changing=bool(call.filled) or bool(args.get("kept")),
        **_type_choices(),
    )


async def test(call: RequestContext) -> HandlerResponse:
    """POST /settings/notifications/{id}/test: send a test message now."""
    id = call.path_value("channel_id")
    try:
        done = await send_test(call, id, validation.parse_object(ChannelTestRequest, {}))
        made = json.loads((await actions.respond(done)).body)
    except ApiError as error:
        return redirect_with_flash(call, f"{PAGE_PATH}/{id}", explain(require_form_error(error)), good=False)
    took = f"after {made['durationMs']} ms"
    if made["delivered"]:
        return redirect_with_flash(call, f"{PAGE_PATH}/{id}", f"Test message accepted {took}. Check that it arrived.")
    said = " ".join((made["responseBody"] or "").split())[:RESPONSE_SHOWN_MAX]
    words = f"The test failed {took}. {made['error']}{f' Response: {said}' if said else ''}"
    return redirect_with_flash(call, f"{PAGE_PATH}/{id}", words, good=False)


async def change(call: RequestContext) -> HandlerResponse:
    """POST /settings/notifications/{id}/change: event types and profile."""
    id, form = call.path_value("channel_id"), forms.parse(call)
    given = {"events": _chosen_types(form), "description": form.get("description", "")}
    try:
        _check_types(form)
        await actions.perform(call.actor, channels.change, id, validation.parse_object(ChannelChange, given))
    except ApiError as error:
        return await read(keep_form(call, require_form_error(error), form))
    return redirect_with_flash(call, f"{PAGE_PATH}/{id}", "Channel saved.")


async def switch(call: RequestContext) -> HandlerResponse:
    """POST /settings/notifications/{id}/switch: `active` is `yes` or `no`."""
    id, active = call.path_value("channel_id"), forms.parse(call).get("active") == "yes"
    await actions.perform(call.actor, channels.change, id, validation.parse_object(ChannelChange, {"active": active}))
    said = "Channel turned on." if active else "Channel turned off. Events that happen meanwhile are not sent later."
    return redirect_with_flash(call, f"{PAGE_PATH}/{id}", said)


async def edit_target(call: RequestContext) -> HandlerResponse:
    """GET /settings/notifications/{id}/target: the form for a new target."""

    def read(session: DashboardSession) -> dict[str, Any]:
        channel = channels.to_body(channels.find(call.scope, call.path_value("channel_id")))
        kind = KINDS[channel["to"]["kind"]]
        return {"channel": channel, "kind": kind, "problems": _problems(kind, call.form_error)}

    return await show(call, "channels/target.html", read)


async def change_target(call: RequestContext) -> HandlerResponse:
    """POST /settings/notifications/{id}/target: all fields; stored ones are not shown."""
    id, form = call.path_value("channel_id"), forms.parse(call)
    kind = await call.service.read(lambda: channels.find(call.scope, id)["kind"])
    try:
        request = validation.parse_object(ChannelChange, {"to": _target(kind, form)})
        assert request.to is not None, "it was given"
        await channels.check_target(call.service, call.scope.organization, request.to)
        await actions.perform(call.actor, channels.change, id, request)
    except ApiError as error:
        return await edit_target(keep_form(call, require_form_error(error), form))
    return redirect_with_flash(call, f"{PAGE_PATH}/{id}", "Target saved. Send a test to check that it works.")


async def confirm_delete(call: RequestContext) -> HandlerResponse:
    """GET /settings/notifications/{id}/delete: the effects."""

    def read(session: DashboardSession) -> dict[str, Any]:
        channel = channels.to_body(channels.find(call.scope, call.path_value("channel_id")))
        return {"channel": channel, "kind": KINDS[channel["to"]["kind"]]}

    return await show(call, "channels/delete.html", read, problem=explain(call.form_error))


async def delete(call: RequestContext) -> HandlerResponse:
    """POST /settings/notifications/{id}/delete."""
    try:
        await require_proof(call, forms.parse(call))
        await actions.perform(call.actor, channels.delete, call.path_value("channel_id"))
    except ApiError as error:
        return await confirm_delete(keep_form(call, require_form_error(error)))
    return redirect_with_flash(call, PAGE_PATH, "Channel deleted.")
