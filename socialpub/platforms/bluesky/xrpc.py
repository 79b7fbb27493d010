"""XRPC calls to Bluesky through the trusted or guarded client, and their classification.

An XRPC error is `{"error": name, "message": text}`; the names are the reference server's (PDS 0.5.35).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from socialpub.base import json_codec
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import HttpClient, UpstreamResponse
from socialpub.base.security.crypto import decode_base64url
from socialpub.platforms.bluesky import dpop
from socialpub.platforms.bluesky.declaration import HOSTS, PLATFORM
from socialpub.platforms.contract import NO_BODY, UNNAMED, Json, Replies, Upstream, Verdict, classify
from socialpub.platforms.contract.bounds import REFERENCE_MAX
from socialpub.platforms.kit.api_errors import ErrorFactory, redact_response, to_record

LOOKUP_SECONDS = 10.0  # for optional data

Step = Literal[
    "login",
    "refresh",
    "revoke",
    "resolve",
    "profile",
    "upload",
    "grant",
    "video",
    "job",
    "look",
    "quote",
    "send",
    "settle",
]

WORDS: Mapping[str, str] = {
    "login": "log in",
    "refresh": "renew the session",
    "revoke": "end the session",
    "resolve": "find the account",
    "profile": "read the profile",
    "upload": "take the image",
    "grant": "allow the upload of a video",
    "video": "take the video",
    "job": "process the video",
    "look": "read the parent post",
    "quote": "read the quoted post",
    "send": "publish the post",
    "settle": "look for the post",
}


# --- Classification ----------------------------------------------------------------------------------------------

_AUTH = "platform_auth_failed"
_RECONNECT = Verdict(Outcome.REJECTED, _AUTH, remediation="Reconnect the account.", token_refused=True)
_SCOPES = Verdict(
    Outcome.REJECTED, _AUTH, remediation="Connect the account again and allow everything that is asked for."
)
_RESTORE = Verdict(Outcome.REJECTED, _AUTH, remediation="Restore the account in the Bluesky app, then publish again.")
NOT_THERE = Verdict(
    Outcome.REJECTED, _AUTH, remediation="Restore the account in the Bluesky app, then connect it again."
)
_STALE = Verdict(Outcome.NOT_SENT, _AUTH, stale_token=True)
_WRONG = Verdict(
    Outcome.REJECTED,
    _AUTH,
    remediation="Check the handle, make an app password in the Bluesky app (Settings, Privacy and security, "
    "App passwords) and connect again with it.",
)
_INVALID = Verdict(Outcome.REJECTED, rule="bluesky.record.invalid")
NO_PARENT = Verdict(Outcome.REJECTED, rule="bluesky.reply.refs")
NO_QUOTED = Verdict(Outcome.REJECTED, rule="bluesky.quote.uri")
_VIDEO = Verdict(Outcome.REJECTED, rule="bluesky.video.upload_failed")
_VIDEO_NAMES: Mapping[str, Verdict] = {
    "VideoTooLarge": Verdict(Outcome.REJECTED, rule="bluesky.media.video_size_max"),
    "VideoTooLong": Verdict(Outcome.REJECTED, rule="bluesky.video.too_long"),
    "UnsupportedContentType": Verdict(Outcome.REJECTED, rule="bluesky.media.mime_allowed"),
    "DailyLimitExceeded": Verdict(Outcome.REJECTED, rule="bluesky.video.quota_exhausted"),
}

REPLIES: Replies = {
    # An expired access token gives 400, not 401 (PDS auth-verifier); other servers may use 401.
    ("*", 400, "ExpiredToken"): _STALE,
    ("*", 400, "InvalidToken"): _STALE,
    ("*", 401, None): _STALE,
    ("*", 401, "use_dpop_nonce"): Verdict(Outcome.NOT_SENT, "platform_unavailable"),
    ("*", 401, "AuthMissing"): _RECONNECT,
    ("*", 401, "AuthenticationRequired"): _RECONNECT,
    ("*", 401, "AccountTakedown"): _RESTORE,
    ("*", 401, "AccountDeactivated"): _RESTORE,
    ("*", 403, "AccountNotFound"): _RECONNECT,
    ("*", 403, "ScopeMissingError"): _SCOPES,
    # The reference server checks its limits before it executes (PDS rate-limiter-http).
    ("*", 429, None): Verdict(Outcome.THROTTLED, "platform_unavailable"),
    ("login", 400, None): _WRONG,
    ("login", 401, None): _WRONG,
    ("login", 401, "AccountTakedown"): NOT_THERE,
    ("login", 401, "AuthFactorTokenRequired"): Verdict(
        Outcome.REJECTED, _AUTH, remediation="Use an app password instead of the account's main password."
    ),
    ("refresh", 400, "ExpiredToken"): _RECONNECT,
    ("refresh", 400, "InvalidToken"): _RECONNECT,
    ("refresh", 400, "AccountNotFound"): _RECONNECT,
    ("refresh", 401, None): _RECONNECT,
    ("refresh", 401, "AccountTakedown"): _RESTORE,
    ("refresh", 401, "AccountDeactivated"): _RESTORE,
    ("resolve", 401, None): Verdict(Outcome.REJECTED),
    ("look", 400, "RecordNotFound"): NO_PARENT,
    ("quote", 400, "RecordNotFound"): NO_QUOTED,
    ("upload", 413, None): Verdict(Outcome.REJECTED, rule="bluesky.media.image_size_max"),
    ("send", 400, "InvalidRequest"): _INVALID,
    ("send", 400, "InvalidMimeType"): _INVALID,
    ("send", 400, "InvalidSize"): _INVALID,
    ("send", 413, None): _INVALID,
    # We chose the record's key, so it can be read back.
    ("send", 200, NO_BODY): UNNAMED,
    ("send", 400, "InvalidSwap"): Verdict(Outcome.REJECTED, rule="bluesky.record.conflict"),
    # The server dropped the upload before the record arrived: nothing was written.
    ("send", 400, "BlobNotFound"): Verdict(Outcome.NOT_SENT, "platform_unavailable", prepare_again=True),
    ("video", 413, None): _VIDEO_NAMES["VideoTooLarge"],
    **{("video", status, None): _VIDEO for status in (400, 403, 409, 415, 422)},
    **{
        ("video", status, name): found
        for status in (400, 403, 409, 413, 415, 422, 429)
        for name, found in _VIDEO_NAMES.items()
    },
    # Listed again, because the step's own row for 400 takes precedence.
    ("video", 400, "ExpiredToken"): _STALE,
    ("video", 400, "InvalidToken"): _STALE,
}


# --- Calls ---------------------------------------------------------------------------------------------------------


def parse_origin(url: str) -> str:
    """Return `scheme://host[:port]` in lower case; empty if invalid or with credentials."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    known = parts.scheme in ("http", "https") and host and parts.username is None
    return f"{parts.scheme}://{host}{port}" if known else ""


def client_for(up: Upstream, url: str) -> HttpClient:
    """Return the client for a URL: trusted for configured hosts, otherwise guarded."""
    trusted = {parse_origin(getattr(up.site, name)) for name in HOSTS}
    return up.http if parse_origin(url) in trusted else up.guarded


def find_server_origin(up: Upstream) -> str:
    """Return the origin of the account's own server."""
    return parse_origin(str(up.account.extra.get("pds") or "")) or parse_origin(up.site.service)


def call(
    up: Upstream,
    step: Step,
    method: Literal["GET", "POST"],
    host: str,
    nsid: str,
    *,
    bearer: str | None = None,
    headers: Mapping[str, str] | None = None,
    mutating: bool = False,
    secrets: tuple[str, ...] = (),
    **sent: Any,
) -> UpstreamResponse:
    """Make an XRPC call and return the 2xx response. Raises others as REPLIES classifies them.

    `sent`: further arguments of `HttpClient.request`; `secrets` are redacted from the error, like the tokens.
    """
    url = f"{host}/xrpc/{nsid}"
    try:
        reply = _send(up, method, url, bearer, dict(headers or {}), sent)
    except ApiError as error:
        raise _explain_guard(error) from error
    if not reply.is_success:
        raise build_response_error(up, step, reply, mutating=mutating, secrets=(*secrets, bearer or ""))
    if method == "GET" and reply.lacks_record:
        raise build_unusable_error(up, step, reply)
    return reply


def _send(
    up: Upstream, method: Literal["GET", "POST"], url: str, bearer: str | None, headers: dict[str, str], sent: Json
) -> UpstreamResponse:
    key = up.tokens.private.get(dpop.KEY)
    if bearer and key:
        return dpop.request(up, client_for(up, url), key, method, url, access=bearer, headers=headers, **sent)
    auth = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    return client_for(up, url).request(method, url, headers=auth | headers, **sent)


def ask_video_service(
    up: Upstream,
    method: Literal["GET", "POST"],
    name: str,
    token: str = "",
    headers: Mapping[str, str] | None = None,
    **sent: Any,
) -> UpstreamResponse:
    """Call `app.bsky.video.NAME` of the video service; return its response, also a refusal."""
    url = f"{parse_origin(up.site.video_service)}/xrpc/app.bsky.video.{name}"
    auth = {"Authorization": f"Bearer {token}"} if token else {}
    return client_for(up, url).request(method, url, headers={**auth, **(headers or {})}, **sent)


_ERRORS = ErrorFactory(PLATFORM, REPLIES, WORDS)
build_rule_error, build_unusable_error = _ERRORS.build_violation, _ERRORS.build_unusable
build_worded_error = _ERRORS.build_classified


def error_name(reply: UpstreamResponse) -> str | None:
    """Return the name of the XRPC error, if any."""
    name = reply.record().get("error")
    return name if isinstance(name, str) else None


def build_response_error(
    up: Upstream, step: Step, reply: UpstreamResponse, *, mutating: bool = False, secrets: tuple[str, ...] = ()
) -> ApiError:
    """Build the error of a response, classified by REPLIES, with secrets redacted."""
    found = classify(REPLIES, step, reply.status_code, error_name(reply), mutating=mutating)
    return build_classified_error(up, step, found, reply, secrets)


def build_classified_error(
    up: Upstream, step: Step, found: Verdict, reply: UpstreamResponse, secrets: tuple[str, ...]
) -> ApiError:
    """Build the error of a classified response, with secrets redacted."""
    shown = redact_response(up, reply, *secrets)
    return _ERRORS.build_reported(up, step, found, shown, _error_text(shown))


def build_error(up: Upstream, found: Verdict, message: str, said: Json | None = None) -> ApiError:
    """Build an error without rule or upstream refusal."""
    return ApiError(
        found.code,
        message,
        platform=PLATFORM.name,
        platform_version=PLATFORM.pinned(up.site),
        platform_response=said,
        remediation=found.remediation,
        outcome=found.outcome,
    )


def find_blob(body: Json) -> Json | None:
    """Return the blob of a response unchanged; None if no record could hold it."""
    blob = body.get("blob")
    if not isinstance(blob, dict) or not isinstance(blob.get("ref"), dict):
        return None
    sound = isinstance(blob.get("mimeType"), str) and isinstance(blob.get("size"), int)
    sound = sound and isinstance(blob["ref"].get("$link"), str)
    return blob if sound and len(json_codec.dumps(blob)) <= REFERENCE_MAX else None


def decode_claims(jwt: str) -> Json:
    """Return the unverified payload of a JWT, or empty (tokens are opaque by specification)."""
    try:
        part = jwt.split(".")[1]
        value = json_codec.loads(decode_base64url(part))
    except (IndexError, ValueError):
        return {}
    return to_record(value)


def _error_text(reply: UpstreamResponse) -> str:
    return str(reply.record().get("message") or reply.record().get("error_description") or error_name(reply) or "")


def _explain_guard(error: ApiError) -> ApiError:
    """Rephrase a refusal of the guarded client so that the operator knows what to set."""
    if error.rule != "media.url.disallowed":
        return error
    return ApiError(
        _AUTH,
        error.message,
        platform=PLATFORM.name,
        remediation="The account's server needs a public https address, or must be platforms.bluesky.service.",
        outcome=Outcome.NOT_SENT,
    )
