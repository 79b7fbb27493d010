"""Resolution of Bluesky accounts: handle → DID → DID document → server (PDS).

Steps and checks: atproto.com/specs/handle and atproto.com/specs/did.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from socialpub.base.errors import ApiError, Outcome
from socialpub.platforms.bluesky.xrpc import (
    LOOKUP_SECONDS,
    build_error,
    build_response_error,
    build_unusable_error,
    call,
    client_for,
    parse_origin,
)
from socialpub.platforms.contract import Json, Upstream, Verdict
from socialpub.platforms.kit.api_errors import to_records

UNVERIFIED = "handle.invalid"
_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HANDLE = re.compile(rf"(?:{_LABEL}\.)+[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?")
_DID = re.compile(r"did:plc:[a-z2-7]{8,64}|did:web:[a-z0-9.-]{1,253}(?:%3[aA][0-9]{1,5})?")
_NO_TLDS = ("alt", "arpa", "example", "internal", "invalid", "local", "localhost", "onion")
_CHECK_HANDLE = "Enter the handle as the Bluesky app shows it, for example alice.bsky.social."
_REPAIR = "Repair the handle in the Bluesky app (Settings, Account, Handle), then connect again."


@dataclass(frozen=True)
class AccountHost:
    """Account and the origin of its server."""

    did: str
    handle: str
    pds: str


def is_handle(text: str) -> bool:
    """Return whether text is a well-formed handle (lowercase) that may exist."""
    return len(text) <= 253 and bool(_HANDLE.fullmatch(text)) and text.rsplit(".", 1)[1] not in _NO_TLDS


def is_did(text: object) -> bool:
    """Return whether a value is a DID of a supported method."""
    return isinstance(text, str) and bool(_DID.fullmatch(text))


def resolve_account(up: Upstream, name: str) -> AccountHost:
    """Resolve a handle or DID; the handle and its DID document must name each other.

    Raises `platform_auth_failed` for a name that is invalid, unknown, or claimed by another account.
    """
    name = _normalize(name)
    if is_did(name):
        document = _document(up, name)
        return AccountHost(name, _verify_handle(up, name, document), _server(up, document))
    if not is_handle(name):
        raise _auth_error(up, "This is not a Bluesky handle.", _CHECK_HANDLE)
    did = _resolve(up, name)
    document = _document(up, did)
    if name not in _names(document):
        raise _auth_error(up, f"The account of @{name} does not use this handle.", _REPAIR)
    return AccountHost(did, name, _server(up, document))


def resolve_at(up: Upstream, host: str, handle: str) -> str | None:
    """Resolve a handle at one host; None if unknown there."""
    try:
        nsid = "com.atproto.identity.resolveHandle"
        reply = call(up, "resolve", "GET", host, nsid, params={"handle": handle}, timeout=LOOKUP_SECONDS)
    except ApiError as error:
        if error.outcome is Outcome.REJECTED:
            return None
        raise
    did = reply.record().get("did")
    return did if isinstance(did, str) and is_did(did) else None


def _normalize(name: str) -> str:
    # Handles copied from the app contain invisible direction marks.
    seen = "".join(char for char in name if unicodedata.category(char) != "Cf").strip()
    return seen.removeprefix("at://").removeprefix("@").lower()


def _resolve(up: Upstream, handle: str) -> str:
    lost: ApiError | None = None
    answered = False
    for host in dict.fromkeys((parse_origin(up.site.public_api), parse_origin(up.site.service))):
        try:
            did = resolve_at(up, host, handle)
        except ApiError as error:
            lost = error
            continue
        answered = True
        if did:
            return did
    if lost and not answered:
        raise lost
    raise _auth_error(up, f"Bluesky knows no account @{handle}.", _CHECK_HANDLE)


def _document(up: Upstream, did: str) -> Json:
    """Fetch the DID document; a did:web host is chosen by a user, so it is guarded."""
    url = f"{parse_origin(up.site.plc_directory)}/{did}"
    client = client_for(up, url)
    if did.startswith("did:web:"):
        url, client = f"https://{unquote(did.removeprefix('did:web:'))}/.well-known/did.json", up.guarded
    reply = client.request("GET", url)
    if reply.status_code in (404, 410):
        raise _auth_error(up, f"No account {did} is registered.", _CHECK_HANDLE)
    if not reply.is_success:
        raise build_response_error(up, "resolve", reply)
    document = reply.record()
    if document.get("id") != did:
        raise build_unusable_error(up, "resolve", reply)
    return document


def _names(document: Json) -> list[str]:
    """List the handles in the document."""
    known = document.get("alsoKnownAs")
    names = known if isinstance(known, list) else []
    return [name.removeprefix("at://").lower() for name in names if isinstance(name, str) and name.startswith("at://")]


def _verify_handle(up: Upstream, did: str, document: Json) -> str:
    """Return the document's handle if it resolves back to the DID, else the placeholder."""
    handle = next(filter(is_handle, _names(document)), "")
    try:
        return handle if handle and _resolve(up, handle) == did else UNVERIFIED
    except ApiError as error:
        if error.outcome is Outcome.REJECTED:
            return UNVERIFIED
        raise


def _server(up: Upstream, document: Json) -> str:
    for endpoint in _endpoints(document.get("service")):
        host = parse_origin(endpoint)
        if host and endpoint.rstrip("/").lower() == host:
            return host
    raise _auth_error(up, "The account's DID document names no server.", _REPAIR)


def _endpoints(services: Any) -> Iterator[str]:
    for entry in to_records(services):
        if entry.get("type") != "AtprotoPersonalDataServer":
            continue
        name, endpoint = entry.get("id"), entry.get("serviceEndpoint")
        if isinstance(name, str) and name.endswith("#atproto_pds") and isinstance(endpoint, str):
            yield endpoint


def _auth_error(up: Upstream, message: str, remediation: str) -> ApiError:
    return build_error(up, Verdict(Outcome.REJECTED, "platform_auth_failed", remediation=remediation), message)
