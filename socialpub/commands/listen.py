"""`socialpub listen`, `trigger`: webhooks on a developer's machine, by the public API."""

from __future__ import annotations

import base64
import binascii
import json
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from socialpub.base import http as outbound
from socialpub.base.error_codes import ERRORS
from socialpub.base.errors import ApiError
from socialpub.base.json_codec import dumps
from socialpub.base.runtime import SYSTEM_ENTROPY, IdGenerator, SystemClock
from socialpub.commands.click_types import CommandOptions
from socialpub.commands.serve import CommandRefusedError
from socialpub.domain.delivery.webhooks import signatures
from socialpub_client.commands.runner import printing

POLL_SECONDS = 1.0
RETRY_SECONDS_MAX = 30.0  # seconds between retries of an unresponsive server
PAGE = 200
FORWARD_SECONDS = 10.0  # as for a delivery
TEST_SECONDS = 70.0  # slightly longer than a server waits for a receiver
Json = dict[str, Any]


class PublicApi:
    """Client of a server's public API."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url.rstrip("/"), key

    def get(self, path: str, **params: str) -> Json:
        return self._ask("GET", path, params=params)

    def post(self, path: str, body: Json) -> Json:
        return self._ask("POST", path, json=body, timeout=TEST_SECONDS)

    def _ask(self, method: str, path: str, **more: Any) -> Json:
        headers = {"Authorization": f"Bearer {self._key}"}
        with outbound.HttpClient(outbound.UNGUARDED_POLICY) as http:
            reply = http.request(method, self._url + path, headers=headers, **more)
        if not reply.is_success:
            raise _to_error(reply)
        if reply.lacks_record:
            raise ApiError(
                "platform_unavailable", f"The server answered {reply.status_code}, but its response {reply.unread}."
            )
        return reply.record()


def _to_error(reply: outbound.UpstreamResponse) -> ApiError:
    """Convert the server's error, or report that it is not a socialpub."""
    error = reply.record().get("error", {})
    code = error.get("code") if error.get("code") in ERRORS else "platform_unavailable"
    message = error.get("message") or f"The server answered {reply.status_code}."
    retry_after = reply.retry_after
    return ApiError(
        code, message, remediation=error.get("remediation", ""), status=reply.status_code, retry_after=retry_after
    )


# --- listen ------------------------------------------------------------------------------------------------------


def listen(options: CommandOptions) -> None:
    """Forward every event from now on, until Ctrl-C."""
    if not options.forward_to and not options.print:
        options.usage("give --forward-to, --print or both")
    _check_address(options, "url", options.url)
    if options.forward_to:
        _check_address(options, "forward-to", options.forward_to)
    secret = options.secret or "whsec_" + base64.b64encode(SYSTEM_ENTROPY(32)).decode()
    try:
        base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        options.usage("--secret must be whsec_ followed by base64")
    api = PublicApi(options.url, options.key)
    params = {"type": options.types} if options.types else {}
    start = api.get("/v1/events", cursor="end", **params)["endCursor"]  # raises if refused, which ends the command
    _print_start(options, secret)
    forwarder = EventForwarder(options, secret)
    try:
        for event in _events(api, start, params):
            forwarder.forward(event)
    except KeyboardInterrupt:
        _print_line("stopped")


def _check_address(options: CommandOptions, name: str, url: str) -> None:
    """Exit with code 2 unless the URL can be called."""
    try:
        parts = urlsplit(url)
        callable_ = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        callable_ = False
    if not callable_:
        options.usage(f"--{name} must be an http or https URL, such as http://localhost:3000")


def _print_start(options: CommandOptions, secret: str) -> None:
    to = f", forwarding to {options.forward_to}" if options.forward_to else ""
    _print_line(f"listening to {options.url}{to}; Ctrl-C stops")
    if options.forward_to and not options.secret:
        _print_line(f"signing secret: {secret}")


def _print_line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _events(api: PublicApi, cursor: str, params: dict[str, str]) -> Iterator[Json]:
    """Yield the events after the cursor, in order and without end; retries on errors."""
    wait = threading.Event().wait
    delay = POLL_SECONDS
    while True:
        try:
            page = api.get("/v1/events", cursor=cursor, limit=str(PAGE), **params)
        except ApiError as error:
            if error.status < 500 and error.status != 429:
                raise
            delay = min(max(2 * delay, error.retry_after or 0), RETRY_SECONDS_MAX)
            _print_line(f"{error.message} Trying again in {delay:.0f} s.")
            wait(delay)
            continue
        delay = POLL_SECONDS
        yield from page["data"]
        cursor = page["endCursor"]
        if page["nextCursor"] is None:
            wait(POLL_SECONDS)


class EventForwarder:
    """Forwards each event once, signed like a delivery, with a line on standard output."""

    def __init__(self, options: CommandOptions, secret: str) -> None:
        self._options, self._secret = options, secret
        self._clock = SystemClock()
        self._ids = IdGenerator(self._clock, SYSTEM_ENTROPY)

    def forward(self, event: Json) -> None:
        """Send an event if configured, and print the result; a failing receiver is skipped."""
        status = self._send(event) if self._options.forward_to else None
        with printing():
            if self._options.json:
                row = {"type": event["type"], "id": event["id"], "status": status}
                print(dumps(row | ({"event": event} if self._options.print else {})))
                return
            print("  ".join(str(part) for part in (event["type"], event["id"], status) if part is not None))
            if self._options.print:
                print(json.dumps(event, indent=2, ensure_ascii=False))

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


def trigger(options: CommandOptions) -> list[Json]:
    """Send a sample event to the endpoint, or to all active ones that want the type."""
    _check_address(options, "url", options.url)
    api = PublicApi(options.url, options.key)
    body = {"type": options.type} | ({"data": _data(options)} if options.data is not None else {})
    endpoints = [options.endpoint] if options.endpoint else _find_endpoints(api, options.type)
    if not endpoints:
        raise CommandRefusedError(f"no active endpoint is subscribed to {options.type}")
    results = [
        _summarize_test(endpoint, api.post(f"/v1/webhook-endpoints/{endpoint}/test", body)) for endpoint in endpoints
    ]
    if not all(row["delivered"] for row in results):
        options.exit_code = 1
    return results


def _data(options: CommandOptions) -> Json:
    try:
        value = json.loads(options.data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        options.usage("--data must be a JSON object")
    found: Json = value
    return found


def _find_endpoints(api: PublicApi, type_: str) -> list[str]:
    found = api.get("/v1/webhook-endpoints")["data"]
    return [row["id"] for row in found if row["active"] and (not row["events"] or type_ in row["events"])]


def _summarize_test(endpoint: str, result: Json) -> Json:
    fields = {name: result[name] for name in ("delivered", "status", "errorName", "durationMs", "deliveryId")}
    return {"endpoint": endpoint, "event": result["sentEvent"]["id"], **fields}
