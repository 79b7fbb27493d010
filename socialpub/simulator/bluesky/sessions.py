"""Methods `com.atproto.server.*`: sessions, app passwords and account status."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from socialpub.base.runtime import Clock, format_iso
from socialpub.simulator.bluesky import accounts as identities
from socialpub.simulator.bluesky.accounts import Account, Accounts
from socialpub.simulator.bluesky.tokens import APP_PASSWORD
from socialpub.simulator.bluesky.xrpc import Method, Request, error, invalid

BLOB_LIMIT = 5 * 1024 * 1024  # of a default server; Bluesky's own accept 50 MiB
_AUDIENCE = re.compile(r"(did:plc:[a-z2-7]{24}|did:web:[a-zA-Z0-9.-]+(%3A\d+)?)(#[a-zA-Z0-9_-]+)?")
_HOUR, _MINUTE = 3600, 60


def service_did(origin: str) -> str:
    """Return the did:web of a server at this origin."""
    return "did:web:" + quote(urlsplit(origin).netloc, safe=".-_")


class Sessions:
    """Handlers that take a request and return JSON."""

    def __init__(self, accounts: Accounts, clock: Clock) -> None:
        self._accounts = accounts
        self._clock = clock

    def methods(self) -> tuple[Method, ...]:
        server = "com.atproto.server"
        return (
            Method("GET", f"{server}.describeServer", self._describe),
            Method("POST", f"{server}.createAccount", self._create_account, auth="optional"),
            Method("POST", f"{server}.createSession", self._create),
            Method("POST", f"{server}.refreshSession", self._refresh, auth="refresh"),
            Method("POST", f"{server}.deleteSession", self._delete, auth="spent"),
            Method("GET", f"{server}.getSession", self._get, auth="access"),
            Method("GET", f"{server}.getServiceAuth", self._service_auth, auth="access"),
            Method("POST", f"{server}.createAppPassword", self._create_app_password, auth="full"),
            Method("POST", f"{server}.revokeAppPassword", self._revoke_app_password, auth="full"),
            Method("POST", f"{server}.deactivateAccount", self._set("deactivated"), auth="full"),
            Method("POST", f"{server}.activateAccount", self._set(None), auth="full"),
            Method("POST", "com.atproto.admin.updateSubjectStatus", self._take_down, auth="admin"),
        )

    def _describe(self, request: Request) -> Any:
        return {
            "did": service_did(request.call.origin),
            "availableUserDomains": [".test"],
            "inviteCodeRequired": False,
            "blobUploadLimit": BLOB_LIMIT,
            "links": {},
            "contact": {},
        }

    def _account(self, request: Request) -> Account:
        account = self._accounts.find(request.did)
        if account is None:
            raise error(403, "AccountNotFound", "Account not found")
        return account

    def _create_account(self, request: Request) -> Any:
        wanted = request.input
        try:
            account = self._accounts.add(wanted["handle"], email=wanted.get("email"), password=wanted.get("password"))
        except ValueError as taken:
            raise invalid(str(taken)) from taken
        origin = request.call.origin
        tokens = self._accounts.open_session(account, None, service_did(origin))
        return {"handle": account.handle, "did": account.did, "didDoc": account.did_document(origin), **tokens}

    def _create(self, request: Request) -> Any:
        account, app_password = self._accounts.login(request.input["identifier"], request.input["password"])
        if account.status == "takendown" and not request.input.get("allowTakendown"):
            raise error(401, "AccountTakedown", "Account has been taken down")
        origin = request.call.origin
        return {
            **self._accounts.open_session(account, app_password, service_did(origin)),
            **account.session(origin),
        }

    def _refresh(self, request: Request) -> Any:
        account = self._account(request)
        if account.status == "takendown":
            raise error(401, "AccountTakedown", "Account has been taken down")
        origin = request.call.origin
        rotated = self._accounts.rotate(account, _token_id(request), service_did(origin))
        if rotated is None:
            raise error(400, "ExpiredToken", "Token has been revoked")
        return {**rotated, **account.session(origin)}

    def _delete(self, request: Request) -> Any:
        self._account(request).refresh_tokens.pop(_token_id(request), None)

    def _get(self, request: Request) -> Any:
        return self._account(request).session(request.call.origin)

    def _service_auth(self, request: Request) -> Any:
        aud, exp, lxm = (request.params.get(name) for name in ("aud", "exp", "lxm"))
        if not _AUDIENCE.fullmatch(str(aud)):
            raise invalid("aud must be a valid atproto DID or did#serviceId reference")
        now = self._clock.now_ms() // 1000
        _check_expiry(exp, now, lxm)
        _check_method(lxm, request)
        claims = {"iat": now, "iss": request.did, "aud": aud, "exp": exp or now + _MINUTE, "lxm": lxm}
        return {"token": _service_token({key: value for key, value in claims.items() if value is not None})}

    def _create_app_password(self, request: Request) -> Any:
        account, name = self._account(request), request.input["name"]
        made = format_iso(self._clock.now_ms())
        secret = identities.app_password(account, name)
        return {"name": name, "password": secret, "createdAt": made, "privileged": False}

    def _revoke_app_password(self, request: Request) -> Any:
        """Revoke an app password and its sessions; access tokens remain valid until they expire."""
        account, name = self._account(request), request.input["name"]
        account.app_passwords.pop(name, None)
        account.refresh_tokens = {
            token_id: token for token_id, token in account.refresh_tokens.items() if token.app_password != name
        }

    def _set(self, status: Literal["deactivated"] | None) -> Callable[[Request], Any]:
        def change(request: Request) -> Any:
            self._account(request).status = status

        return change

    def _take_down(self, request: Request) -> Any:
        subject, takedown = request.input["subject"], request.input.get("takedown") or {}
        account = self._accounts.find(str(subject.get("did")))
        if account is None:
            raise error(400, "NotFound", "Subject not found")
        account.status = "takendown" if takedown.get("applied") else None
        return {"subject": subject, "takedown": takedown}


def _token_id(request: Request) -> str:
    return (request.claims.token_id if request.claims else None) or ""


def _check_expiry(exp: int | None, now: int, lxm: str | None) -> None:
    if not exp:
        return
    if exp < now:
        raise error(400, "BadExpiration", "expiration is in past")
    if exp - now > _HOUR:
        message = "cannot request a token with an expiration more than an hour in the future"
        raise error(400, "BadExpiration", message)
    if lxm is None and exp - now > _MINUTE:
        message = "cannot request a method-less token with an expiration more than a minute in the future"
        raise error(400, "BadExpiration", message)


def _check_method(lxm: str | None, request: Request) -> None:
    privileged = lxm is not None and (lxm.startswith("chat.bsky.") or lxm == "com.atproto.server.createAccount")
    if privileged and request.claims is not None and request.claims.scope == APP_PASSWORD:
        raise invalid(f"insufficient access to request a service auth token for the following method: {lxm}")


def _service_token(claims: dict[str, Any]) -> str:
    """Make a service token.

    Real ones are signed with the account's key, this one with a digest.
    """
    parts = [json.dumps(part, separators=(",", ":")).encode() for part in ({"typ": "JWT", "alg": "ES256K"}, claims)]
    parts.append(hashlib.sha512(parts[1]).digest())
    return ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def service_claims(token: str) -> dict[str, Any] | None:
    """Return the claims of a service token of this server; None for any other text."""
    try:
        claims = json.loads(urlsafe_b64decode(token.split(".")[1] + "=="))
    except (ValueError, LookupError):
        return None
    return claims if isinstance(claims, dict) and _service_token(claims) == token else None
