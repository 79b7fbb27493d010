"""`socialpub listen`, `trigger`: webhooks on a developer's machine, by the public API."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError
from socialpub.base.json_codec import dumps
from socialpub.base.runtime import SYSTEM_ENTROPY, IdGenerator, SystemClock
from socialpub.domain.delivery.webhooks import signatures
from socialpub_client import Socialpub, errors
from socialpub_client.commands.click_types import ApiOptions
from socialpub_client.commands.exit_codes import DONE, FAILED, PARTLY, REFUSED
from socialpub_client.commands.runner import Output, connect, format_value, new_key, report_error, tell, writing
from socialpub_client.commands.webhooks import split_types
from socialpub_client.webhooks import decode_secret

FORWARD_SECONDS = 10.0  # as for a delivery
Json = dict[str, Any]

# --- listen ------------------------------------------------------------------------------------------------------


def listen(options: ApiOptions) -> Output:
    """Forward every event from now on, until Ctrl-C."""
    if not options.forward_to and not options.print:
        options.usage("give --forward-to, --print or both")
    if options.forward_to:
        _check_address(options)
    secret = options.secret
    if secret is None:
        secret = "whsec_" + base64.b64encode(SYSTEM_ENTROPY(32)).decode()
    try:
        decode_secret(secret)
    except errors.SignatureError:
        options.usage("--secret must be whsec_ followed by base64")
    forwarder = EventForwarder(options, secret)
    return Output(rows=map(forwarder.forward, _events(options, connect(options), secret)), lines=_format_event)


def _check_address(options: ApiOptions) -> None:
    """Raise UsageError unless the URL to forward to can be called."""
    try:
        parts = urlsplit(options.forward_to)
        callable_ = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        callable_ = False
    if not callable_:
        options.usage("--forward-to must be an http or https URL, such as http://localhost:3000")


def _events(options: ApiOptions, client: Socialpub, secret: str) -> Iterator[Json]:
    """Yield the events from now on, and tell when it begins.

    A server that is away at the beginning is an error; one that goes away later is waited for.
    """
    is_listening = False

    def begin(_: str) -> None:
        nonlocal is_listening
        if not is_listening:
            to = f", forwarding to {options.forward_to}" if options.forward_to else ""
            tell(options, f"listening to {client.engine.url}{to}; Ctrl-C stops")
            if options.forward_to and not options.secret:
                tell(options, f"signing secret: {secret}")
        is_listening = True

    def tell_failure(error: errors.SocialpubError) -> None:
        if not is_listening:
            raise error
        tell(options, f"{error.message} Trying again.")

    types = split_types(options.types) or ()
    for event in client.events.follow(types=types, heartbeat=begin, on_retry=tell_failure):
        yield dict(event.raw)


def _format_event(row: Json) -> list[str]:
    line = "  ".join(str(part) for part in (row["type"], row["id"], row["status"]) if part is not None)
    return [line, json.dumps(row["event"], indent=2, ensure_ascii=False)] if "event" in row else [line]


class EventForwarder:
    """Forwards each event once, signed like a delivery."""

    def __init__(self, options: ApiOptions, secret: str) -> None:
        self._options, self._secret = options, secret
        self._clock = SystemClock()
        self._ids = IdGenerator(self._clock, SYSTEM_ENTROPY)

    def forward(self, event: Json) -> Json:
        """Send an event if configured, and return the row to print; a failing receiver is skipped."""
        status = self._send(event) if self._options.forward_to else None
        row = {"type": event["type"], "id": event["id"], "status": status}
        return row | ({"event": event} if self._options.print else {})

    def _send(self, event: Json) -> int | str:
        """Send an event; return the response's status, or the error."""
        body = dumps(event).encode("utf-8", "surrogatepass")
        headers = signatures.build_headers(
            self._options.header_prefix,
            [self._secret],
            body,
            event=event["id"],
            type_=event["type"],
            delivery=self._ids.prefixed("dlv_"),
            request=None,
            at_seconds=self._clock.now_ms() // 1000,
        )
        try:
            with outbound.HttpClient(outbound.UNGUARDED_POLICY) as http:
                reply = http.request(
                    "POST", self._options.forward_to, headers=headers, content=body, timeout=FORWARD_SECONDS
                )
        except ApiError as error:
            return error.message
        return reply.status_code


# --- trigger -----------------------------------------------------------------------------------------------------


def trigger(options: ApiOptions) -> Output:
    """Send a sample event to the endpoint, or to all active ones that want the type."""
    if options.idempotency_key and not options.endpoint:
        options.usage("--idempotency-key is of one request: give --endpoint")
    data, client = _data(options), connect(options)
    endpoints = [options.endpoint] if options.endpoint else _find_endpoints(client, options.type)
    if not endpoints:
        raise errors.NotFound(
            f"No active endpoint is subscribed to {options.type}.",
            status=404,
            remediation="Register one: socialpub webhooks create URL. `socialpub listen` is none: it gets no samples.",
        )
    output = Output(lines=_format_test, wrote=True)
    output.rows = _test_all(options, client, endpoints, data, output)
    return output


def _test_all(
    options: ApiOptions, client: Socialpub, endpoints: list[str], data: Json | None, output: Output
) -> Iterator[Json]:
    """Test endpoints in order, to the first that fails to be tested; yield a row for each."""
    delivered = set[bool]()
    for endpoint in endpoints:
        try:
            row = _test(options, client, endpoint, data)
        except (errors.SocialpubError, OSError) as error:
            code = report_error(error, options)
            output.code = PARTLY if True in delivered and code in (FAILED, REFUSED) else code
            return
        delivered.add(row["delivered"])
        output.code = DONE if delivered == {True} else FAILED if delivered == {False} else PARTLY
        yield row


def _data(options: ApiOptions) -> Json | None:
    if options.data is None:
        return None
    try:
        value = json.loads(options.data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        options.usage("--data must be a JSON object")
    found: Json = value
    return found


def _find_endpoints(client: Socialpub, type_: str) -> list[str]:
    found = [row.raw for row in client.webhooks.list()]
    return [row["id"] for row in found if row["active"] and (not row["events"] or type_ in row["events"])]


def _test(options: ApiOptions, client: Socialpub, endpoint: str, data: Json | None) -> Json:
    key = new_key(options)
    with writing(key):
        result = client.webhooks.test(endpoint, type=options.type, data=data, idempotency_key=key).raw
    fields = {name: result[name] for name in ("delivered", "status", "errorName", "durationMs", "deliveryId")}
    return {"endpoint": endpoint, "event": result["sentEvent"]["id"], **fields}


def _format_test(row: Json) -> list[str]:
    outcome = "delivered" if row["delivered"] else "failed"
    return ["  ".join(map(format_value, (row | {"delivered": outcome}).values()))]
