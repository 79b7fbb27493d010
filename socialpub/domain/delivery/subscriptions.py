"""Common parts of webhook endpoints and notification channels: scope, maximum, changes."""

from __future__ import annotations

import json
from typing import Any

from peewee import SQL

from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access.authentication import Scope
from socialpub.domain.schemas.notifications import ChannelChange
from socialpub.domain.schemas.webhooks import EndpointChange
from socialpub.store.queries.webhooks import select_within
from socialpub.store.schema.models import NotificationChannel, WebhookEndpoint, find_row_where, find_rows

SubscriptionModel = type[WebhookEndpoint] | type[NotificationChannel]


def _scope_filter(model: SubscriptionModel, scope: Scope) -> Any:
    """Select the rows of the scope that are not deleted."""
    here = scope.filter(model) & model.deleted_at.is_null()
    if scope.accounts is not None:
        here &= SQL(select_within("?"), (scope.account_list,))
    return here


def list_rows(model: SubscriptionModel, scope: Scope) -> list[Any]:
    """List the rows of the scope, oldest first."""
    return find_rows(model, _scope_filter(model, scope), order=model.id)


def find(model: SubscriptionModel, scope: Scope, id: str, name: str) -> Any:
    """Load a row of the scope. Raises ApiError `not_found`, which calls it by `name`."""
    row = find_row_where(model, _scope_filter(model, scope) & (model.id == id))
    if row is None:
        raise ApiError("not_found", f"There is no {name} with this id.")
    return row


def check_room(model: SubscriptionModel, scope: Scope, most: int, rule: str, name: str) -> None:
    """Raise ApiError with this rule if the whole organization has `most` of them already."""
    if model.select().where(model.organization == scope.organization, model.deleted_at.is_null()).count() >= most:
        raise rule_error(rule, f"The organization already has {most} {name}s, which is the maximum.")


def list_changes(request: EndpointChange | ChannelChange, now: int, *, is_moved: bool) -> dict[str, object]:
    """List the columns to change, but for the address that events are sent to.

    `is_moved`: that address changes. Earlier failures do not count for the new one, nor after being switched on again.
    """
    changes: dict[str, object] = {"updated_at": now}
    if request.events is not None:
        changes["events"] = encode_events(request.events)
    if "description" in request.model_fields_set:
        changes["description"] = request.description
    if request.active is not None:
        changes["active"] = request.active
    if request.active or is_moved:
        changes["failing_since"] = None
    return changes


def encode_events(wanted: list[str] | None) -> str:
    """Encode event types as stored: each once, as JSON."""
    return json.dumps(list(dict.fromkeys(wanted or [])))
