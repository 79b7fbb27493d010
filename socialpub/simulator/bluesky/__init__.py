"""Fake Bluesky: PDS, authorization server, DID registry and AppView at one origin.

It follows @atproto/pds 0.5.35 in its default configuration: sessions, OAuth, blobs up to 5 MiB, records of posts and
gates with the full validation of their lexicons, rate limits if switched on, and the video service. Operations are
named by their NSID, and `oauth.*`, `plc.resolve`, `handle.did`, `_health` and `unknown`.
`com.atproto.admin.updateSubjectStatus` takes accounts down (Basic authentication as `admin` with
`accounts.ADMIN_PASSWORD`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator
from pydantic.alias_generators import to_camel

from socialpub.simulator.bluesky import accounts as identities
from socialpub.simulator.bluesky import limits, xrpc
from socialpub.simulator.bluesky.accounts import Accounts
from socialpub.simulator.bluesky.identity import Identity
from socialpub.simulator.bluesky.lexicon import FORMATS
from socialpub.simulator.bluesky.limits import Limiter
from socialpub.simulator.bluesky.oauth import OAUTH_QUIRKS, AuthorizationServer
from socialpub.simulator.bluesky.records import Records
from socialpub.simulator.bluesky.sessions import BLOB_LIMIT, Sessions
from socialpub.simulator.bluesky.tokens import Claims
from socialpub.simulator.bluesky.video import Videos
from socialpub.simulator.bluesky.xrpc import Auth, Method
from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.forms import bearer
from socialpub.simulator.state import SimulatorState

_VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE")  # the handler itself rejects all but two


class _AccountRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    handle: str
    display_name: str | None = None
    email: str | None = None
    password: str | None = None

    @field_validator("handle")
    @classmethod
    def _is_handle(cls, value: str) -> str:
        if not FORMATS["handle"].test(value):
            raise ValueError("a handle is a domain name, such as alice.test")
        return value.lower()


class Bluesky:
    """Fake platform; implements `FakePlatform`."""

    name: str = "bluesky"
    max_body: int = BLOB_LIMIT
    ids: tuple[str, ...] = ("uri", "cid", "did", "accessJwt", "blob")

    def __init__(self, lab: SimulatorState) -> None:
        self._lab = lab
        self.accounts = Accounts(lab.clock)
        self._identity = Identity(self.accounts)
        self._limiter = Limiter(lab.clock)
        self.videos = Videos(lab, self.accounts)
        self.oauth = AuthorizationServer(lab.clock, OAUTH_QUIRKS, self._dids, owner_of=self._did_of)

    def _dids(self) -> Iterator[str]:
        return (account.did for account in self.accounts)

    def _did_of(self, name: str) -> str:
        account = self.accounts.find(name)
        return account.did if account else ""

    def operations(self) -> tuple[Operation, ...]:
        """Return one operation per XRPC method, plus the registry's and the handle's documents."""
        methods = (
            *Sessions(self.accounts, self._lab.clock).methods(),
            *Records(self._lab, self.accounts).methods(),
            *self._identity.methods(),
            *self.videos.methods(),
        )
        return (
            Operation(
                "_health", ("GET",), "/xrpc/_health", lambda call: FakeResponse(200, {"version": "0.5.35"}, xrpc.OPEN)
            ),
            *(self._operation(method) for method in methods),
            *self.oauth.operations(),
            Operation("unknown", _VERBS, "/xrpc/<nsid:path>", self._unknown),
            Operation("handle.did", ("GET",), "/.well-known/atproto-did", self._identity.well_known),
            Operation("plc.resolve", ("GET",), "/<did:str>", self._identity.registry),
        )

    def _operation(self, method: Method) -> Operation:
        def handle(call: Call) -> FakeResponse:
            answer = xrpc.serve(method, call, self._authenticate, lambda request: self._charge(method, request))
            if _scheme(call) != "dpop":
                return answer
            return replace(answer, headers={**answer.headers, "dpop-nonce": self.oauth.proofs.nonce()})

        return Operation(method.nsid, _VERBS, f"/xrpc/{method.nsid}", handle)

    def _authenticate(self, call: Call, auth: Auth) -> Claims | None:
        if auth in ("access", "full") and _scheme(call) == "dpop":
            return self.oauth.claims(call, auth)
        if self.oauth.access(bearer(call)).state != "unknown":
            raise xrpc.error(400, "InvalidToken", "Malformed token")  # a bound token needs its proof
        return self.accounts.authenticate(call, auth)

    def _charge(self, method: Method, request: xrpc.Request) -> Mapping[str, str]:
        if not self._lab.settings.rate_limits:
            return {}
        return self._limiter.take(limits.charges(method.nsid, request))

    def _unknown(self, call: Call) -> FakeResponse:
        """Refuse an unknown method: the server would forward it to its AppView, which it lacks."""
        if not re.fullmatch(r"[a-zA-Z0-9.-]+", call.parts["nsid"]):
            raise xrpc.invalid("invalid xrpc path")
        try:
            self._authenticate(call, "access")
        except RefusedError as refused:
            return xrpc.private(refused.answer)
        return xrpc.private(xrpc.error(502).answer)

    def add_account(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Create an account with an app password.

        `wanted`: `handle`, optional `displayName`, `email` and `password`.
        """
        asked = _AccountRequest.model_validate(wanted)
        account = self.accounts.add(asked.handle, email=asked.email, password=asked.password, name=asked.display_name)
        return {
            "did": account.did,
            "handle": account.handle,
            "email": account.email,
            "password": account.password,
            "appPassword": identities.app_password(account, "simulator"),
            "pds": self._lab.origins.get(self.name),
        }

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        """Expire or revoke tokens. Raises ValueError for an unknown account (DID or handle)."""
        chosen = list(self.accounts) if account is None else [self.accounts.find(account)]
        for one in chosen:
            if one is None:
                raise ValueError(f"there is no account {account!r}")
            one.generation += access
            if refresh:
                one.refresh_tokens.clear()
            self.oauth.end_tokens(one.did, access=access, refresh=refresh)

    def refusal(self, status: int, retry_after: int | None) -> FakeResponse:
        """Build the server's error for a status; 429 has rate-limit headers with an absolute reset."""
        if status in (404, 405):
            return xrpc.not_found()
        answer = xrpc.error(status).answer
        headers = dict(answer.headers)
        if retry_after is not None:
            headers["retry-after"] = str(retry_after)
        if status == 429:
            reset = self._lab.clock.now_ms() // 1000 + (retry_after or 0)
            headers |= {
                "ratelimit-limit": "5000",
                "ratelimit-remaining": "0",
                "ratelimit-reset": str(reset),
                "ratelimit-policy": "5000;w=3600",
            }
        return FakeResponse(status, answer.body, headers)

    def reset(self) -> None:
        self._limiter.clear()
        self.videos.reset()
        self.oauth.clients.clear()
        for account in self.accounts:
            account.repo.clear()


def _scheme(call: Call) -> str:
    return call.headers.get("authorization", "").partition(" ")[0].lower()
