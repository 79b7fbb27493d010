"""Webhooks: endpoints, deliveries, and repeating deliveries."""

from __future__ import annotations

import json
from typing import Any, get_args
from urllib.parse import urlencode

from socialpub.base.errors import ApiError
from socialpub.base.runtime import format_iso
from socialpub.domain.access import actions
from socialpub.domain.delivery import url_policy
from socialpub.domain.delivery.webhooks import deliveries, endpoints
from socialpub.domain.identity.dashboard_session import DashboardSession
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.events import EVENTS
from socialpub.domain.schemas.webhooks import (
    DeliveriesQuery,
    EndpointChange,
    EndpointRequest,
    RedeliverRequest,
    TestRequest,
)
from socialpub.store.rows import DeliveryStatus
from socialpub.web.api.webhooks import send_test
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

WEBHOOKS_PATH = "/webhooks"
TYPES = {f"event-{number}": name for number, name in enumerate(EVENTS)}
"""The types of events by their boxes in the form. A box named `token.revoked` would be left out of a saved form."""
STATUSES: tuple[str, ...] = get_args(DeliveryStatus)

# --- All endpoints -----------------------------------------------------------------------------------------------


async def list_endpoints(call: RequestContext) -> HandlerResponse:
    """GET /webhooks."""

    def read(session: DashboardSession) -> dict[str, Any]:
        return {"endpoints": endpoints.list_bodies(session.scope)}

    return await show(call, "webhooks/list.html", read, problem=explain(call.form_error), types=TYPES)


async def register(call: RequestContext) -> HandlerResponse:
    """POST /webhooks: the next page shows the signing secret once."""
    form = forms.parse(call)
    given = {
        "url": form.get("url", ""),
        "events": [name for box, name in TYPES.items() if form.get(box)],
        "description": form.get("description", ""),
    }
    try:
        await require_proof(call, form)
        request = validation.parse_object(EndpointRequest, given)
        await url_policy.check_address(call.service, call.scope.organization, request.url)
        made = await actions.perform(call.actor, endpoints.create, request)
    except ApiError as error:
        return await list_endpoints(keep_form(call, require_form_error(error), form))
    words = "Endpoint added. Its signing secret, with which the receiver verifies deliveries:"
    return redirect_with_flash(call, f"{WEBHOOKS_PATH}/{made['id']}", words, secret=str(made["signingSecret"]))


# --- One endpoint ------------------------------------------------------------------------------------------------


async def read(call: RequestContext) -> HandlerResponse:
    """GET /webhooks/{id}: its deliveries, filtered by `status`."""
    id, args = call.path_value("endpoint_id"), call.request.args
    status, cursor = args.get("status") or "", args.get("cursor") or ""

    def read(session: DashboardSession) -> dict[str, Any]:
        endpoint = endpoints.to_body(endpoints.find(call.scope, id))
        given: dict[str, Any] = {"endpointId": id, "limit": 25}
        given |= {"status": [status]} if status in STATUSES else {}
        given |= {"cursor": cursor} if cursor else {}
        page = deliveries.load_page(call.service, call.scope, validation.parse_object(DeliveriesQuery, given))
        rest = {"status": status} if status in STATUSES else {}
        older = urlencode(rest | {"cursor": page["nextCursor"]}) if page["nextCursor"] else None
        return {"endpoint": endpoint, "deliveries": page["data"], "older": older}

    return await show(call, "webhooks/endpoint.html", read, status_wanted=status, is_later=bool(cursor))


async def test(call: RequestContext) -> HandlerResponse:
    """POST /webhooks/{id}/test: send a sample now."""
    id, form = call.path_value("endpoint_id"), forms.parse(call)
    back = f"{WEBHOOKS_PATH}/{id}"
    try:
        request = validation.parse_object(TestRequest, {"type": form["type"]} if form.get("type") else {})
        made = json.loads((await actions.respond(await send_test(call, id, request))).body)
    except ApiError as error:
        return redirect_with_flash(call, back, explain(require_form_error(error)), good=False)
    if made["delivered"]:
        return redirect_with_flash(call, back, f"Test event delivered: {made['status']} after {made['durationMs']} ms.")
    said = f"the receiver answered {made['status']}" if made["status"] else f"no response ({made['errorName']})"
    return redirect_with_flash(call, back, f"Test event not delivered: {said}.", good=False)


async def switch(call: RequestContext) -> HandlerResponse:
    """POST /webhooks/{id}/switch: `active` is `yes` or `no`."""
    id, active = call.path_value("endpoint_id"), forms.parse(call).get("active") == "yes"
    await actions.perform(call.actor, endpoints.change, id, validation.parse_object(EndpointChange, {"active": active}))
    words = "Endpoint turned on." if active else "Endpoint turned off. Events that happen meanwhile are not sent later."
    return redirect_with_flash(call, f"{WEBHOOKS_PATH}/{id}", words)


async def redeliver_failed(call: RequestContext) -> HandlerResponse:
    """POST /webhooks/{id}/redeliver: repeat all failed deliveries."""
    id = call.path_value("endpoint_id")
    request = validation.parse_object(RedeliverRequest, {"since": format_iso(0)})
    again = await actions.perform(call.actor, deliveries.redeliver_since, id, request)
    count = int(str(again["count"]))
    words = {0: "No deliveries failed.", 1: "Redelivering 1 delivery."}.get(count, f"Redelivering {count} deliveries.")
    return redirect_with_flash(call, f"{WEBHOOKS_PATH}/{id}", words)


async def confirm_rotate(call: RequestContext) -> HandlerResponse:
    """GET /webhooks/{id}/rotate: the effects."""
    return await _confirm_page(call, "webhooks/rotate.html")


async def rotate(call: RequestContext) -> HandlerResponse:
    """POST /webhooks/{id}/rotate."""
    id = call.path_value("endpoint_id")
    try:
        await require_proof(call, forms.parse(call))
        made = await actions.perform(call.actor, endpoints.rotate_secret, id)
    except ApiError as error:
        return await confirm_rotate(keep_form(call, require_form_error(error)))
    words = "New signing secret. For 24 hours, deliveries are signed with the old secret too."
    return redirect_with_flash(call, f"{WEBHOOKS_PATH}/{id}", words, secret=str(made["signingSecret"]))


async def confirm_delete(call: RequestContext) -> HandlerResponse:
    """GET /webhooks/{id}/delete: the effects."""
    return await _confirm_page(call, "webhooks/delete.html")


async def delete(call: RequestContext) -> HandlerResponse:
    """POST /webhooks/{id}/delete."""
    try:
        await require_proof(call, forms.parse(call))
        await actions.perform(call.actor, endpoints.delete, call.path_value("endpoint_id"))
    except ApiError as error:
        return await confirm_delete(keep_form(call, require_form_error(error)))
    return redirect_with_flash(call, WEBHOOKS_PATH, "Endpoint deleted.")


async def _confirm_page(call: RequestContext, template: str) -> HandlerResponse:
    id = call.path_value("endpoint_id")

    def read(session: DashboardSession) -> dict[str, Any]:
        return {"endpoint": endpoints.to_body(endpoints.find(call.scope, id))}

    return await show(call, template, read, problem=explain(call.form_error))


# --- One delivery ------------------------------------------------------------------------------------------------


async def read_delivery(call: RequestContext) -> HandlerResponse:
    """GET /deliveries/{id}."""
    id = call.path_value("delivery_id")

    def read(session: DashboardSession) -> dict[str, Any]:
        found = deliveries.load_detail(call.scope, id)
        body = json.dumps(found["event"], indent=2, ensure_ascii=False)
        return {
            "delivery": found,
            "endpoint": endpoints.to_body(endpoints.find(call.scope, found["endpointId"])),
            "body": body,
        }

    return await show(call, "webhooks/delivery.html", read)


async def redeliver(call: RequestContext) -> HandlerResponse:
    """POST /deliveries/{id}/redeliver."""
    id = call.path_value("delivery_id")
    await actions.perform(call.actor, deliveries.redeliver, id)
    return redirect_with_flash(call, f"/deliveries/{id}", "Redelivering. All attempts are available again.")
