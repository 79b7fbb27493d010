"""Identity: handles, the DID registry (plc.directory) and profiles (AppView)."""

from __future__ import annotations

from typing import Any

from socialpub.simulator.bluesky.accounts import Accounts
from socialpub.simulator.bluesky.records import POST
from socialpub.simulator.bluesky.xrpc import CORS, Method, Request, error, invalid, not_found
from socialpub.simulator.contract import Call, FakeResponse, RefusedError


class Identity:
    """Identity methods, and two documents outside XRPC."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def methods(self) -> tuple[Method, ...]:
        return (
            Method("GET", "com.atproto.identity.resolveHandle", self._resolve),
            Method("GET", "app.bsky.actor.getProfile", self._profile),
        )

    def _resolve(self, request: Request) -> Any:
        wanted = request.params["handle"].lower()
        account = next((account for account in self._accounts if account.handle == wanted), None)
        if account is None:
            own = wanted.endswith(".test")  # for other domains the server asks the DNS
            raise error(400, "HandleNotFound" if own else "InvalidRequest", "Unable to resolve handle")
        return {"did": account.did}

    def _profile(self, request: Request) -> Any:
        account = self._accounts.find(request.params["actor"])
        if account is None:
            raise invalid("Profile not found")
        name = {} if account.display_name is None else {"displayName": account.display_name}
        posts = sum(1 for collection, _ in account.repo.records if collection == POST)
        counts = {"followersCount": 0, "followsCount": 0, "postsCount": posts}
        return {"did": account.did, "handle": account.handle, **name, "labels": [], **counts}

    def well_known(self, call: Call) -> FakeResponse:
        """Return the DID of the handle in the call's host name."""
        host = call.headers.get("host", "").partition(":")[0].lower()
        account = next((account for account in self._accounts if account.handle == host), None)
        if account is None:
            return FakeResponse(404, "User not found", CORS, "text/html; charset=utf-8")
        return FakeResponse(200, account.did, CORS, "text/plain; charset=utf-8")

    def registry(self, call: Call) -> FakeResponse:
        """Return the DID document, as plc.directory does."""
        did = call.parts["did"]
        if not did.startswith("did:"):
            raise RefusedError(not_found())
        account = next((account for account in self._accounts if account.did == did), None)
        if account is None:
            return FakeResponse(404, {"message": f"DID not registered: {did}"}, CORS)
        document = account.did_document(call.origin)
        return FakeResponse(200, document, CORS, "application/did+ld+json; charset=utf-8")
