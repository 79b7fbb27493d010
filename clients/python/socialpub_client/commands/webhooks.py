"""`socialpub webhooks`: endpoints that receive events, and deliveries to them."""

from __future__ import annotations

from typing import Any

from socialpub_client.commands.click_types import ApiOptions
from socialpub_client.commands.posts import limited, page_size
from socialpub_client.commands.runner import Output, confirm, connect, connect_to_write
from socialpub_client.engine import given

Json = dict[str, Any]


def split_types(text: str | None) -> list[str] | None:
    """Split event types at commas; None if none were given."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def list_endpoints(options: ApiOptions) -> Output:
    """List endpoints."""
    client = connect(options)
    rows = [dict(row.raw) for row in client.webhooks.list()]
    return Output(rows=rows, lines=lambda row: [f"{row['id']}  {'active' if row['active'] else 'off'}  {row['url']}"])


def show(options: ApiOptions) -> Output:
    """Show an endpoint."""
    client = connect(options)
    return Output(dict(client.webhooks.get(options.id).raw))


def create(options: ApiOptions) -> Output:
    """Create an endpoint."""
    body = given(url=options.address, events=split_types(options.types), description=options.description)
    return _write(options, "POST", "", body)


def change(options: ApiOptions) -> Output:
    """Change an endpoint."""
    types = split_types(options.types)
    body = given(url=options.address, events=types, description=options.description, active=options.active)
    if not body:
        options.usage("give --address, --types, --description, --active or --inactive")
    return _write(options, "PATCH", f"/{options.id}", body)


def delete(options: ApiOptions) -> Output:
    """Delete an endpoint."""
    confirm(options, f"Delete {options.id}?")
    return _write(options, "DELETE", f"/{options.id}", None)


def rotate(options: ApiOptions) -> Output:
    """Give an endpoint a new secret."""
    return _write(options, "POST", f"/{options.id}/rotate-secret", None)


def _write(options: ApiOptions, method: str, path: str, body: Json | None) -> Output:
    with connect_to_write(options) as (client, key):
        answer = client.request(method, f"/v1/webhook-endpoints{path}", body, idempotency_key=key)
    return Output(answer.json, wrote=True)


def deliveries(options: ApiOptions) -> Output:
    """List deliveries, newest first."""
    client = connect(options)
    pages = client.webhooks.deliveries(endpoint=options.endpoint, status=options.status, limit=page_size(options))
    return Output(rows=limited(options, pages), lines=_format_delivery)


def _format_delivery(row: Json) -> list[str]:
    return ["  ".join((row["id"], row["status"], row["type"], row["createdAt"], row["lastError"] or ""))]


def redeliver(options: ApiOptions) -> Output:
    """Send a delivery again."""
    with connect_to_write(options) as (client, key):
        return Output(dict(client.webhooks.redeliver_one(options.id, idempotency_key=key).raw), wrote=True)
