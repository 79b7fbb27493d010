"""Accounts, their sessions, identities and authentication."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from socialpub.base.runtime import Clock
from socialpub.simulator.bluesky import tokens
from socialpub.simulator.bluesky.repo import Repo
from socialpub.simulator.bluesky.tokens import Claims
from socialpub.simulator.bluesky.xrpc import Auth, error
from socialpub.simulator.contract import Call

ADMIN_PASSWORD = "simulator-admin"
GRACE_SECONDS = 2 * 3600  # seconds that a refresh token remains valid after its first use


@dataclass
class RefreshToken:
    expires_at: int
    app_password: str | None
    next_id: str | None = None


@dataclass
class Account:
    """User account. `generation` counts how often its access tokens were expired."""

    did: str
    handle: str
    password: str
    email: str
    repo: Repo
    display_name: str | None = None
    app_passwords: dict[str, str] = field(default_factory=dict)
    status: Literal["deactivated", "takendown"] | None = None
    generation: int = 0
    refresh_tokens: dict[str, RefreshToken] = field(default_factory=dict)

    def key(self, generation: int) -> bytes:
        return hashlib.sha256(f"{self.did}:{self.password}:{generation}".encode()).digest()

    def did_document(self, pds: str) -> dict[str, Any]:
        """Build the DID document. Its key is a dummy: nothing is verified with it."""
        key = "z" + base64.b32encode(hashlib.sha256(self.did.encode()).digest()).decode().rstrip("=")
        key = key.replace("O", "8").replace("I", "9")  # base58 has neither
        return {
            "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/secp256k1-2019/v1"],
            "id": self.did,
            "alsoKnownAs": [f"at://{self.handle}"],
            "verificationMethod": [
                {
                    "id": "#atproto",
                    "type": "EcdsaSecp256k1VerificationKey2019",
                    "controller": self.did,
                    "publicKeyMultibase": key,
                }
            ],
            "service": [{"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": pds}],
        }

    def session(self, pds: str) -> dict[str, Any]:
        """Build the account's part of the responses of session methods."""
        body: dict[str, Any] = {
            "did": self.did,
            "didDoc": self.did_document(pds),
            "handle": self.handle,
            "email": self.email,
            "emailConfirmed": False,
            "active": self.status is None,
        }
        return body if self.status is None else {**body, "status": self.status}


@dataclass
class Accounts:
    """All accounts of the server, and the tokens issued to them."""

    clock: Clock
    _by_did: dict[str, Account] = field(default_factory=dict)
    _by_name: dict[str, Account] = field(default_factory=dict)  # by handle and e-mail address
    _token_count: int = 0

    def __iter__(self) -> Iterator[Account]:
        return iter(list(self._by_did.values()))

    def add(
        self, handle: str, *, email: str | None = None, password: str | None = None, name: str | None = None
    ) -> Account:
        """Add an account with a made-up DID. Raises ValueError if the handle is taken."""
        if self.find(handle) is not None:
            raise ValueError(f"Handle already taken: {handle}")
        did = f"did:plc:{_letters(f'did {handle}', 24)}"
        password = password or f"pw-{_letters(f'password {handle}', 16)}"
        email = email or f"{handle.partition('.')[0]}@example.com"
        account = Account(did, handle, password, email, Repo(did, self.clock), name)
        self._by_did[did] = account
        for each in (handle, email):
            self._by_name.setdefault(each, account)
        return account

    def find(self, identifier: str) -> Account | None:
        """Find an account by DID, handle or e-mail address."""
        wanted = identifier.lower()
        return self._by_did.get(wanted) or self._by_name.get(wanted)

    def active(self, identifier: str) -> Account:
        """Return the account if it may write; raise the server's refusal otherwise."""
        account = self.find(identifier)
        if account is None:
            raise error(403, "AccountNotFound", "Account not found")
        if account.status == "takendown":
            raise error(401, "AccountTakedown", "Account has been taken down")
        if account.status == "deactivated":
            raise error(401, "AccountDeactivated", "Account is deactivated")
        return account

    # --- Sessions ---

    def login(self, identifier: str, password: str) -> tuple[Account, str | None]:
        """Check the password; return the account and the app password's name (None: main password)."""
        account = self.find(identifier)
        if account is not None and password == account.password:
            return account, None
        names = account.app_passwords.items() if account is not None and account.status != "takendown" else ()
        name = next((name for name, secret in names if secret == password), None)
        if account is None or name is None:
            raise error(401, "AuthenticationRequired", "Invalid identifier or password")
        return account, name

    def open_session(self, account: Account, app_password: str | None, audience: str) -> dict[str, str]:
        return self._tokens(account, app_password, audience, self._new_id())

    def rotate(self, account: Account, token_id: str, audience: str) -> dict[str, str] | None:
        """Exchange a refresh token for new tokens; None if revoked or past its grace time.

        During the grace time a used token remains valid and always gets the same successor.
        """
        now = self._now()
        token = account.refresh_tokens.get(token_id)
        if token is None or token.expires_at <= now:
            return None
        token.expires_at = min(token.expires_at, now + GRACE_SECONDS)
        token.next_id = token.next_id or self._new_id()
        return self._tokens(account, token.app_password, audience, token.next_id)

    def _tokens(self, account: Account, app_password: str | None, audience: str, token_id: str) -> dict[str, str]:
        now, key = self._now(), account.key(account.generation)
        scope = tokens.FULL if app_password is None else tokens.APP_PASSWORD
        access = Claims(account.did, scope, now + tokens.ACCESS_SECONDS)
        refresh = Claims(account.did, tokens.REFRESH, now + tokens.REFRESH_SECONDS, token_id)
        account.refresh_tokens.setdefault(token_id, RefreshToken(refresh.expires_at, app_password))
        return {
            "accessJwt": tokens.make(key, "at+jwt", audience, access, now),
            "refreshJwt": tokens.make(account.key(0), "refresh+jwt", audience, refresh, now),
        }

    def _new_id(self) -> str:
        self._token_count += 1
        return base64.b64encode(hashlib.sha256(f"token {self._token_count}".encode()).digest()).decode().rstrip("=")

    def _now(self) -> int:
        return self.clock.now_ms() // 1000

    # --- Authentication ---

    def authenticate(self, call: Call, auth: Auth) -> Claims | None:
        """Return the claims of the call's token, or raise the server's refusal."""
        if auth in ("none", "optional"):
            return None
        scheme, token = _authorization(call)
        if auth == "admin":
            _require_admin(scheme, token)
            return None
        _require_bearer(scheme, auth)
        if auth in ("refresh", "spent"):
            return self._refresh_claims(token, may_be_spent=auth == "spent")
        return self._access_claims(token, auth)

    def _access_claims(self, token: str, auth: Auth) -> Claims:
        account = self._owner(token)
        generations = range(account.generation, -1, -1)
        found = ((number, tokens.read(account.key(number), "at+jwt", token)) for number in generations)
        generation, claims = next(((number, claims) for number, claims in found if claims), (0, None))
        if claims is None:
            raise error(400, "InvalidToken", "Token could not be verified")
        if generation < account.generation or claims.expires_at <= self._now():
            raise error(400, "ExpiredToken", "Token has expired")
        if auth == "full" and claims.scope != tokens.FULL:
            raise error(400, "InvalidToken", "Bad token scope")
        return claims

    def _refresh_claims(self, token: str, *, may_be_spent: bool) -> Claims:
        claims = tokens.read(self._owner(token).key(0), "refresh+jwt", token)
        if claims is None:
            raise error(400, "InvalidToken", "Token could not be verified")
        if claims.expires_at <= self._now() and not may_be_spent:
            raise error(400, "ExpiredToken", "Token has expired")
        return claims

    def _owner(self, token: str) -> Account:
        account = self._by_did.get(tokens.unverified_did(token) or "")
        if account is None:
            raise error(400, "InvalidToken", "Token could not be verified")
        return account


def _authorization(call: Call) -> tuple[str, str]:
    """Return (scheme in lower case, token); both empty without the header."""
    header = call.headers.get("authorization", "")
    parts = header.split(" ") if header else ["", ""]
    if len(parts) != 2:
        raise error(400, "InvalidToken", "Malformed authorization header")
    if parts[0].lower() not in ("", "basic", "bearer", "dpop"):
        raise error(400, "InvalidToken", f"Unsupported authorization type: {parts[0]}")
    return parts[0].lower(), parts[1]


def _require_bearer(scheme: str, auth: Auth) -> None:
    if not scheme or (scheme != "bearer" and auth in ("refresh", "spent")):
        raise error(401, "AuthMissing")
    if scheme != "bearer":
        raise error(400, "InvalidToken", "Unexpected authorization type")


def _require_admin(scheme: str, token: str) -> None:
    expected = base64.b64encode(f"admin:{ADMIN_PASSWORD}".encode()).decode()
    if scheme != "basic" or token != expected:
        raise error(401, "AuthenticationRequired", "Authentication Required")


def app_password(account: Account, name: str) -> str:
    letters = _letters(f"app {name} {account.did}", 16)
    secret = "-".join(letters[place : place + 4] for place in range(0, 16, 4))
    account.app_passwords[name] = secret
    return secret


def _letters(seed: str, count: int) -> str:
    return base64.b32encode(hashlib.sha256(seed.encode()).digest()).decode().lower()[:count]
