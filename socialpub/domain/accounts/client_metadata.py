"""OAuth without registration: this server as a client known by its public metadata.

The client's key is created once and stored encrypted. Upstream sessions are bound to it, so it is never replaced.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.base.security import crypto
from socialpub.domain.accounts import tokens
from socialpub.domain.context.app_context import AppContext
from socialpub.platforms.contract import (
    AppClient,
    AuthorizationRedirect,
    OfferedAccount,
    Platform,
    SupportsPushedAuthorization,
)
from socialpub.store.database import Tx
from socialpub.store.schema.models import Instance

_SEAL_PLACE = ("instance", "client_key", "1")
_PRIVATE_DOMAINS = ("alt", "arpa", "example", "internal", "invalid", "local", "localhost", "onion", "test")


def is_public(base_url: str) -> bool:
    """Return whether authorization servers can read our metadata: https, public name, no port."""
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    named = "." in host and not _is_address(host) and host.rstrip(".").rsplit(".", 1)[-1] not in _PRIVATE_DOMAINS
    return parts.scheme == "https" and port is None and named


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def can_push_login(service: AppContext, platform: Platform) -> bool:
    """Return whether accounts can be connected by handle on this server."""
    return hasattr(platforms.CONNECTORS.get(platform.name), "invite") and is_public(service.base_url)


def _get_connector(platform: str) -> SupportsPushedAuthorization:
    return cast(SupportsPushedAuthorization, platforms.CONNECTORS[platform])


# --- Client metadata -----------------------------------------------------------------------------------------------


def build_document(service: AppContext, name: str) -> Mapping[str, Any]:
    """Return a document below /oauth/. Raises ApiError `not_found` if it would not be public."""
    for platform in platforms.PLATFORMS.values():
        if can_push_login(service, platform):
            documents = _get_connector(platform.name).client_documents(
                service.base_url, load_client(service, platform.name)
            )
            if name in documents:
                return documents[name]
    raise ApiError("not_found", "This document needs a base_url that is public and https.")


def load_client(service: AppContext, platform: str) -> AppClient:
    """Return this server's OAuth client for the platform. Blocks: not for the event loop."""
    sealed = service.read(_read_key).result()
    if sealed is None:
        fresh = _get_connector(platform).client_key(service.runtime.entropy)
        sealed = service.write(lambda tx: _insert_key(service, tx, fresh)).result()
    try:
        key = service.runtime.vault.open(sealed, _SEAL_PLACE).decode("ascii")
    except crypto.SealError as error:
        raise ApiError("platform_not_enabled", "This server's key as an OAuth client cannot be read.") from error
    base = service.base_url
    return AppClient(f"{base}/oauth/client-metadata.json", f"{base}/connect/{platform}/callback", key)


def _read_key() -> str | None:
    return Instance.select(Instance.client_key).where(Instance.id == 1).scalar()  # type: ignore[no-any-return]


def _insert_key(service: AppContext, tx: Tx, fresh: str) -> str:
    """Return the encrypted key; store `fresh` if there is none yet."""
    sealed = _read_key()
    if sealed is None:
        sealed = service.runtime.vault.seal(fresh.encode("ascii"), _SEAL_PLACE)
        Instance.update(client_key=sealed).where(Instance.id == 1).execute()
    return sealed


# --- Login ---------------------------------------------------------------------------------------------------------


def push_login(service: AppContext, platform: str, handle: str, state: str) -> AuthorizationRedirect:
    """Push the authorization request upstream. Blocks."""
    with tokens.open_upstream(service, platform) as up:
        return _get_connector(platform).invite(up, load_client(service, platform), handle, state)


def exchange_code(
    service: AppContext, platform: str, stored: Mapping[str, Any], code: str, iss: str | None
) -> OfferedAccount:
    """Exchange the code for the account. Blocks."""
    with tokens.open_upstream(service, platform) as up:
        return _get_connector(platform).accept(up, load_client(service, platform), dict(stored), code, iss)
