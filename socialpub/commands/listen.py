"""`socialpub listen` and `socialpub trigger`: webhooks on a developer's own machine, over the public API alone."""

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
from socialpub.base.compact import dumps
from socialpub.base.error_codes import ERRORS
from socialpub.base.errors import ApiError
from socialpub.base.runtime import SYSTEM_ENTROPY, Ids, SystemClock
from socialpub.commands.parts import Options
from socialpub.commands.serve import RefusedError
from socialpub.domain.webhooks import signing

POLL_SECONDS = 1.0
PATIENCE_MAX = 30.0  # seconds between two tries of a server that does not answer
PAGE = 200
FORWARD_SECONDS = 10.0  # as a delivery
TEST_SECONDS = 70.0  # the longest that a server may wait for a receiver, and a little more
Json = dict[str, Any]


class PublicApi:
    """The API of a server as anybody has it who has a key."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url.rstrip("/"), key

    def get(self, path: str, **params: str) -> Json:
        return self._ask("GET", path, params=params)

    def post(self, path: str, body: Json) -> Json:
        return self._ask("POST", path, json=body, deadline=TEST_SECONDS)

    def _ask(self, method: str, path: str, **more: Any) -> Json:
        headers = {"Authorization": f"Bearer {self._key}"}
        with outbound.open_http(outbound.Policy(guarded=False, resolver=outbound.resolve)) as http:
            reply = http.request(method, self._url + path, headers=headers, **more)
        if not reply.ok:
            raise _refusal(reply)
        if reply.lacks_record:
            raise ApiError(
                "platform_unavailable", f"The server answered {reply.status}, but its answer {reply.unread}."
            )
        return reply.record()


def _refusal(reply: outbound.Reply) -> ApiError:
    """What the server said, or that it was no socialpub that answered."""
    told = reply.record().get("error", {})
    code = told.get("code") if told.get("code") in ERRORS else "platform_unavailable"
    message = told.get("message") or f"The server answered {reply.status}."
    retry_after = reply.retry_after
    return ApiError(
        code, message, remediation=told.get("remediation", ""), status=reply.status, retry_after=retry_after
    )


# --- listen ------------------------------------------------------------------------------------------------------


def listen(options: Options) -> None:
    """Hand on every event that happens from now on, until Ctrl-C."""
    if not options.forward_to and not options.print:
        options.usage("name --forward-to, or --print, or both")
    _check_address(options, "url", options.url)
    if options.forward_to:
        _check_address(options, "forward-to", options.forward_to)
    secret = options.secret or "whsec_" + base64.b64encode(SYSTEM_ENTROPY(32)).decode()
    try:
        base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        options.usage("a --secret is whsec_ and base64")
    api = PublicApi(options.url, options.key)
    params = {"type": options.types} if options.types else {}
    start = api.get("/v1/events", cursor="end", **params)["endCursor"]  # refused here: the command ends
    _begin(options, secret)
    forward = Forward(options, secret)
    try:
        for event in _events(api, start, params):
            forward.hand_on(event)
    except KeyboardInterrupt:
        _say("stopped")


def _check_address(options: Options, name: str, url: str) -> None:
    """Exit code 2 for what is no address to call."""
    try:
        parts = urlsplit(url)
        callable_ = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        callable_ = False
    if not callable_:
        options.usage(f"--{name} is an http or https URL, such as http://localhost:3000")


def _begin(options: Options, secret: str) -> None:
    to = f", forwarding to {options.forward_to}" if options.forward_to else ""
    _say(f"listening to {options.url}{to}; Ctrl-C stops")
    if options.forward_to and not options.secret:
        _say(f"signing secret: {secret}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _events(api: PublicApi, cursor: str, params: dict[str, str]) -> Iterator[Json]:
    """Every event after the cursor, in order, without an end. A server that does not answer is asked again."""
    wait = threading.Event().wait
    patience = POLL_SECONDS
    while True:
        try:
            page = api.get("/v1/events", cursor=cursor, limit=str(PAGE), **params)
        except ApiError as error:
            if error.status < 500 and error.status != 429:
                raise
            patience = min(max(2 * patience, error.retry_after or 0), PATIENCE_MAX)
            _say(f"{error.message} Asking again in {patience:.0f} s.")
            wait(patience)
            continue
        patience = POLL_SECONDS
        yield from page["data"]
        cursor = page["endCursor"]
        if page["nextCursor"] is None:
            wait(POLL_SECONDS)


class Forward:
    """Sends events on, each once, signed as a delivery is; a line on standard output for each."""

    def __init__(self, options: Options, secret: str) -> None:
        self._options, self._secret = options, secret
        self._clock = SystemClock()
        self._ids = Ids(self._clock, SYSTEM_ENTROPY)

    def hand_on(self, event: Json) -> None:
        """Send it, where it is to be sent, and say what came of it; a receiver that fails stops nothing."""
        status = self._send(event) if self._options.forward_to else None
        if self._options.json:
            told = {"type": event["type"], "id": event["id"], "status": status}
            print(dumps(told | ({"event": event} if self._options.print else {})), flush=True)
            return
        print("  ".join(str(part) for part in (event["type"], event["id"], status) if part is not None), flush=True)
        if self._options.print:
            print(json.dumps(event, indent=2, ensure_ascii=False), flush=True)

    def _send(self, event: Json) -> int | str:
        """The status of the answer, or why there is none."""
        body = dumps(event).encode("utf-8", "surrogatepass")
        headers = signing.headers(
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
            with outbound.open_http(outbound.Policy(guarded=False, resolver=outbound.resolve)) as http:
                reply = http.request(
                    "POST", self._options.forward_to, headers=headers, content=body, deadline=FORWARD_SECONDS
                )
        except ApiError as error:
            return error.message
        return reply.status


# --- trigger -----------------------------------------------------------------------------------------------------


def trigger(options: Options) -> list[Json]:
    """What the endpoint, or each one that is on and wants the type, did with a sample."""
    _check_address(options, "url", options.url)
    api = PublicApi(options.url, options.key)
    body = {"type": options.type} | ({"data": _data(options)} if options.data is not None else {})
    endpoints = [options.endpoint] if options.endpoint else _wanting(api, options.type)
    if not endpoints:
        raise RefusedError(f"no endpoint that is on wants {options.type}")
    told = [_triggered(endpoint, api.post(f"/v1/webhook-endpoints/{endpoint}/test", body)) for endpoint in endpoints]
    if not all(row["delivered"] for row in told):
        options.exit_code = 1
    return told


def _data(options: Options) -> Json:
    try:
        value = json.loads(options.data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        options.usage("--data is a JSON object")
    found: Json = value
    return found


def _wanting(api: PublicApi, type_: str) -> list[str]:
    found = api.get("/v1/webhook-endpoints")["data"]
    return [row["id"] for row in found if row["active"] and (not row["events"] or type_ in row["events"])]


def _triggered(endpoint: str, told: Json) -> Json:
    kept = {name: told[name] for name in ("delivered", "status", "errorName", "durationMs", "deliveryId")}
    return {"endpoint": endpoint, "event": told["sentEvent"]["id"], **kept}
