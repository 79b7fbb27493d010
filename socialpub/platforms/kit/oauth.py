"""OAuth authorization-code flow, driven by a platform's `OAuthFlow` row.

Larger deviations stay in the platform's module, which uses `parse_tokens` for any response with tokens and
`require_scopes` for scopes reported elsewhere. Responses are accepted flat, under `data` (Instagram), or as errors with
status 200 (TikTok). No secret gets into an error.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import HttpClient, UpstreamResponse
from socialpub.base.observability import redaction
from socialpub.base.security import crypto
from socialpub.platforms.contract import (
    ConfiguredSite,
    Json,
    OAuthFlow,
    Platform,
    ScopedSite,
    Site,
    Tokens,
    Upstream,
    bounds,
)

_SCOPE_FIELDS = ("scope", "scopes", "permissions")
_REFRESH_LIFE_FIELDS = ("refresh_token_expires_in", "refresh_expires_in")
_MISCONFIGURED = frozenset(
    {"invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "redirect_uri_mismatch"}
)
_ABOUT_GRANTS = frozenset({"invalid_grant", "invalid_request", "invalid_token"})
# Meta has no names for these: developers.facebook.com/docs/graph-api/guides/error-handling, and its messages.
_MISCONFIGURED_WORDS = ("client secret", "client_secret", "platform app", "validating application")
_GRAPH_BUSY = frozenset({"1", "2"})
_GRAPH_THROTTLED = frozenset({"4", "17", "32", "613"})


# --- Requests ----------------------------------------------------------------------------------------------------


def build_authorize_url(platform: Platform, site: Site, redirect_uri: str, state: str, verifier: str) -> str:
    """Build the authorization URL for the browser. `verifier` is used with PKCE.

    A `ScopedSite` may replace the row's scopes, a `ConfiguredSite` uses a configuration instead.
    """
    row = _row(platform)
    params = {
        "response_type": "code",
        row.client_id_name: site.client_id,
        "redirect_uri": redirect_uri,
        **_scope_parameter(row, site),
        "state": state,
    }
    if row.pkce:
        params |= {"code_challenge": crypto.hash_base64url(verifier), "code_challenge_method": "S256"}
    joint = "&" if "?" in site.authorize_url else "?"
    return site.authorize_url + joint + urlencode(params | dict(row.authorize_extra), quote_via=quote)


def exchange(
    platform: Platform, http: HttpClient, site: Site, code: str, redirect_uri: str, verifier: str, now_ms: int
) -> Tokens:
    """Exchange a code for tokens, requiring all required scopes.

    Raises ApiError `platform_auth_failed` (code refused, scope missing), `platform_not_enabled` (this server's
    credentials refused) or `platform_unavailable`.
    """
    row = _row(platform)
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, **row.token_extra}
    if row.pkce:
        form["code_verifier"] = verifier
    found = _request_tokens(platform, http, site, form, now_ms)
    require_scopes(platform, found.private["scopes"], site)
    return found


def refresh(platform: Platform, up: Upstream, now_ms: int) -> Tokens:
    """Refresh the tokens; values omitted from the response stay as they were.

    Raises ApiError as `exchange`; `platform_auth_failed` means that the account must be reconnected.
    """
    if not up.tokens.refresh:
        raise _refused(platform, f"{platform.label} gave no refresh token when this account was connected.")
    form = {"grant_type": "refresh_token", "refresh_token": up.tokens.refresh}
    return _request_tokens(platform, up.http, up.site, form, now_ms, up.tokens)


def revoke(platform: Platform, up: Upstream, url: str, secrets: Iterable[str] | None = None) -> None:
    """Revoke `secrets` (default: refresh token, then access token) at the platform.

    An already unknown token is a success; any other failure is raised.
    """
    chosen = (up.tokens.refresh, up.tokens.access) if secrets is None else secrets
    for secret in filter(None, chosen):
        form, headers = _add_credentials(_row(platform), up.site, {"token": secret})
        reply = up.http.request("POST", url, data=form, headers=headers)
        fault = _parse_fault(reply)
        if reply.is_success and not fault.name:
            continue
        error = _failure(platform, reply, fault, hide=_secrets(up.site, form, headers))
        if error.code != "platform_auth_failed":
            raise error


def _request_tokens(
    platform: Platform, http: HttpClient, site: Site, form: Mapping[str, str], now_ms: int, held: Tokens | None = None
) -> Tokens:
    """POST a form with client credentials to the token endpoint; parse the tokens."""
    whole, headers = _add_credentials(_row(platform), site, form)
    reply = http.request("POST", site.token_url, data=whole, headers=headers)
    return parse_tokens(platform, reply, now_ms, held=held, hide=_secrets(site, whole, headers))


def check_app(platform: Platform, http: HttpClient, site: Site) -> None:
    """Check that the platform knows the app of `site` (`OAuthFlow.app_check`).

    Raises ApiError `platform_not_enabled` if it refuses the app, `platform_unavailable` if that is unclear.
    """
    row = _row(platform)
    assert row.app_check is not None, "the caller has looked"
    form, headers = _add_credentials(row, site, row.app_check.form)
    path = row.app_check.path
    url = f"{site.token_url.rpartition('/')[0]}/{path}" if path else site.token_url
    is_get = row.app_check.method == "GET"
    reply = http.request(
        row.app_check.method, url, headers=headers, params=form if is_get else None, data=None if is_get else form
    )
    fault = _parse_fault(reply)
    if reply.is_success and not fault.name and not reply.lacks_record:
        return
    error = _failure(platform, reply, fault, hide=_secrets(site, form, headers))
    if reply.status_code == 401:
        raise build_misconfigured_error(platform, error.message.partition("refused: ")[2] or "it does not know them.")
    if error.code == "platform_auth_failed":  # refused for the rest of the form, not for the app's credentials
        raise _unavailable(platform, "did not report whether it knows the app", Outcome.REJECTED)
    raise error


def require_scopes(platform: Platform, granted: Iterable[str], site: Site) -> None:
    """Raise ApiError `platform_auth_failed`, naming missing scopes, if any are required.

    Scopes that the operator does not request are not missing.
    """
    row = _row(platform)
    have, wanted = set(granted), list_scopes(row, site)
    missing = [scope for scope in row.required if scope in wanted and scope not in have]
    if missing:
        raise _refused(
            platform,
            f"{platform.label} did not grant {', '.join(missing)}.",
            "Reconnect the account and grant every requested permission.",
        )


def _scope_parameter(row: OAuthFlow, site: Site) -> dict[str, str]:
    """Build the scope parameter of the consent page."""
    if isinstance(site, ConfiguredSite) and site.config_id:
        return {"config_id": site.config_id}
    return {"scope": row.separator.join(list_scopes(row, site))}


def list_scopes(row: OAuthFlow, site: Site) -> Sequence[str]:
    """Return the scopes to request."""
    return (site.scopes.split() if isinstance(site, ScopedSite) else ()) or row.scopes


def _row(platform: Platform) -> OAuthFlow:
    if platform.oauth is None:
        raise ValueError(f"{platform.name} has no OAuth row")
    return platform.oauth


def _add_credentials(row: OAuthFlow, site: Site, form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Add the client credentials: Basic, or in the body (always for a public client)."""
    headers = {"Accept": "application/json"}
    if row.basic and site.client_secret:
        pair = f"{site.client_id}:{site.client_secret}".encode()
        return dict(form), headers | {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    secret = {"client_secret": site.client_secret} if site.client_secret else {}
    return {**form, row.client_id_name: site.client_id, **secret}, headers


def _secrets(site: Site, form: Mapping[str, str], headers: Mapping[str, str]) -> list[str]:
    """List the sent secrets, to redact from errors."""
    sent = [value for name, value in form.items() if re.search(r"token$|secret$|^code", name)]
    return [*sent, site.client_secret, headers.get("Authorization", "").removeprefix("Basic ")]


# --- Responses ---------------------------------------------------------------------------------------------------


def parse_tokens(
    platform: Platform, reply: UpstreamResponse, now_ms: int, *, held: Tokens | None = None, hide: Iterable[str] = ()
) -> Tokens:
    """Parse tokens; `private` holds `scopes` and, if given, `refreshExpiresAtMs`.

    `held`: the tokens being replaced, which provide omitted values. Without it, omitted scopes are those requested (RFC
    6749, 5.1). `hide`: secrets of the call, redacted from errors.
    """
    body = _flatten(reply)
    access = body.get("access_token")
    if not reply.is_success or not isinstance(access, str) or not access:
        raise _failure(platform, reply, _parse_fault(reply), hide=hide, renewing=held is not None)
    renewed = body.get("refresh_token")
    renewed = renewed if isinstance(renewed, str) and renewed else None
    private = dict(held.private) if held else {}
    if renewed and held and renewed != held.refresh:
        private.pop("refreshExpiresAtMs", None)
    private |= _refresh_end(body, now_ms)
    private["scopes"] = _scopes(body) or private.get("scopes") or list(_row(platform).scopes)
    life = _number(body.get("expires_in"))
    return Tokens(access, renewed or (held.refresh if held else None), now_ms + life * 1000 if life else None, private)


def _flatten(reply: UpstreamResponse) -> Json:
    body = reply.record()
    inner = body.get("data")
    if isinstance(inner, list) and inner:
        inner = inner[0]
    return inner if isinstance(inner, dict) and "access_token" in inner else body


def _scopes(body: Json) -> list[str]:
    found = next((body[name] for name in _SCOPE_FIELDS if body.get(name)), None)
    if isinstance(found, str):
        return [scope for scope in re.split(r"[\s,]+", found) if scope]
    return [scope for scope in found if isinstance(scope, str)] if isinstance(found, list) else []


def _refresh_end(body: Json, now_ms: int) -> dict[str, int]:
    at = _number(body.get("refresh_token_expires_at"))
    if at:
        return {"refreshExpiresAtMs": at * 1000}
    life = next(filter(None, (_number(body.get(name)) for name in _REFRESH_LIFE_FIELDS)), None)
    return {"refreshExpiresAtMs": now_ms + life * 1000} if life else {}


def _number(value: object) -> int | None:
    """Parse positive seconds from number or text; None otherwise."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return int(text) or None if text.isascii() and text.isdigit() and len(text) < 12 else None


# --- Errors ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OAuthFault:
    """Error of an authorization server. `name` is empty if it gives none."""

    name: str = ""
    message: str = ""
    busy: bool = False
    throttled: bool = False

    @property
    def is_ours(self) -> bool:
        """True if the platform refuses this server's app, not the account."""
        return self.name in _MISCONFIGURED or any(word in self.message.lower() for word in _MISCONFIGURED_WORDS)


def _parse_fault(reply: UpstreamResponse) -> OAuthFault:
    body = reply.record()
    inner = body.get("error")
    if isinstance(inner, dict):
        name = str(inner.get("code", ""))
        busy = inner.get("is_transient") is True or name in _GRAPH_BUSY
        return OAuthFault(name, str(inner.get("message", "")), busy, name in _GRAPH_THROTTLED)
    name = next((str(body[key]) for key in ("error", "error_type", "code", "title") if body.get(key)), "")
    said = next((str(body[key]) for key in _MESSAGE_FIELDS if body.get(key)), "")
    return OAuthFault(name, said)


_MESSAGE_FIELDS = ("error_description", "error_message", "message", "detail")


def _failure(
    platform: Platform, reply: UpstreamResponse, fault: OAuthFault, *, hide: Iterable[str], renewing: bool = False
) -> ApiError:
    """Build the error; its code depends on who is at fault: platform, this server or account."""
    hidden = [secret for secret in hide if len(secret) >= 8]
    said = redaction.redact_json(fault.message or fault.name, hidden, bounds.MESSAGE_MAX)
    # With HTTP Basic, 401 refuses the client credentials (RFC 6749, 5.2), despite its text.
    refused_app = _row(platform).basic and reply.status_code == 401 and fault.name not in _ABOUT_GRANTS
    if refused_app and renewing and not fault.is_ours:
        # Pinterest answers a refused refresh the same way: comparing with other accounts tells.
        error = _refused(platform, f"{platform.label} refused: {said}")
        error.app_in_doubt = True
    elif fault.is_ours or refused_app:
        error = build_misconfigured_error(platform, said)
    elif reply.status_code == 429 or fault.throttled:
        error = _unavailable(platform, "asks to slow down", Outcome.THROTTLED, reply.retry_after)
    elif fault.busy or reply.status_code in (408, 425) or reply.status_code >= 500:
        error = _unavailable(platform, "failed to respond", Outcome.AMBIGUOUS, reply.retry_after)
    elif 400 <= reply.status_code < 500 or (reply.is_success and fault.name):
        error = _refused(platform, f"{platform.label} refused: {said}")
    else:
        error = _unavailable(platform, "gave an answer that cannot be read", Outcome.AMBIGUOUS)
        error.platform_response = {"status": reply.status_code}  # a partial response may hold a token
        return error
    error.platform_response = {
        "status": reply.status_code,
        "body": redaction.redact_json(reply.shown(), hidden, redaction.RESPONSE_MAX),
    }
    return error


def _refused(platform: Platform, message: str, remediation: str | None = None) -> ApiError:
    return ApiError(
        "platform_auth_failed",
        message,
        platform=platform.name,
        remediation=remediation,
        outcome=Outcome.REJECTED,
        token_refused=True,
    )


def build_misconfigured_error(platform: Platform, said: str) -> ApiError:
    """Build the error for client credentials that the platform refuses."""
    name = f"platforms.{platform.name}"
    return ApiError(
        "platform_not_enabled",
        f"{platform.label} refuses the app that this server is registered as: {said}",
        platform=platform.name,
        remediation=(
            "Correct the app's id and secret in the dashboard under Settings, Platform apps; or, where the settings "
            f"name it, {name}.client_id and {name}.client_secret. No account needs reconnecting."
        ),
        outcome=Outcome.REJECTED,
    )


def _unavailable(platform: Platform, what: str, outcome: Outcome, retry_after: int | None = None) -> ApiError:
    return ApiError(
        "platform_unavailable",
        f"{platform.label} {what}.",
        platform=platform.name,
        outcome=outcome,
        retry_after=retry_after,
    )
