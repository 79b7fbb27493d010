"""What a request says of itself in headers, read in one pass each: who sends it, for which host, from whose page.

None of Sanic's own readers of cookies and forwarded addresses: they take time that grows with the square of a header.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from sanic import Request

from socialpub.base.config import parse_networks, strip_port
from socialpub.base.errors import rule_error
from socialpub.domain.context.app_context import AppContext

SESSION_COOKIE = "socialpub_session"
DEVICE_COOKIE = "socialpub_device"
HEALTH_PATHS = ("/healthz", "/readyz")
CLIENT_CACHE_MAX = 4096  # whoever asked last is known, and need not be read from text again
FORWARDED_CACHE_CHARS = 100  # characters: few proxies stand in a row
_PORTS = {"http": 80, "https": 443}
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


# --- Cookies -----------------------------------------------------------------------------------------------------


def cookie_name(service: AppContext, cookie: str = SESSION_COOKIE) -> str:
    """A cookie's name; `__Host-` where the server is reached by https."""
    return ("__Host-" if service.base_url.startswith("https:") else "") + cookie


def read_cookie(service: AppContext, request: Request, cookie: str = SESSION_COOKIE) -> str | None:
    """The value of one of our own cookies, the first of that name; None without one."""
    wanted = cookie_name(service, cookie)
    for header in request.headers.getall("cookie", []):
        for pair in header.split(";"):
            name, _, value = pair.partition("=")
            if name.strip() == wanted:
                return value.strip() or None
    return None


# --- The caller's address ------------------------------------------------------------------------------------------


def find_client(service: AppContext, request: Request) -> str:
    """What counts as one caller: an IPv4 address, or an IPv6 /64, of which one customer has all.

    It is the peer's, or where the peer is a trusted proxy the last one in X-Forwarded-For that is none.
    """
    peer = request.conn_info.client_ip if request.conn_info else ""
    lines = request.headers.getall("x-forwarded-for", None)
    if not lines:
        return _resolve_client_cached(peer, "", ())  # nobody need be trusted
    forwarded = ",".join(lines)
    read = _resolve_client_cached if len(forwarded) <= FORWARDED_CACHE_CHARS else _resolve_client
    return read(peer, forwarded, tuple(service.runtime.settings.server.trusted_proxies))


def find_loggable_client(service: AppContext, request: Request) -> str:
    """The same as it is written down: whatever a proxy said, it is ASCII, and one line."""
    return _escape(find_client(service, request))


@functools.lru_cache(CLIENT_CACHE_MAX)
def _escape(caller: str) -> str:
    return ascii(caller)[1:-1]


def _resolve_client(peer: str, forwarded: str, trusted: tuple[str, ...]) -> str:
    address = _parse_address(peer)
    if address is None:
        return peer
    before = [part for part in map(str.strip, forwarded.split(",")) if part]
    while before and _is_trusted(trusted, address):
        named = _parse_address(before.pop())
        if named is None:
            break
        address = named
    return str(address if address.version == 4 else ipaddress.ip_network((address, 64), strict=False))


_resolve_client_cached = functools.lru_cache(CLIENT_CACHE_MAX)(_resolve_client)


def is_client_unnamed(service: AppContext, request: Request) -> bool:
    """Whether the peer is a trusted proxy, or this machine itself, and names no client in X-Forwarded-For."""
    peer = _peer_address(request)
    trusted = tuple(service.runtime.settings.server.trusted_proxies)
    return peer is not None and _is_trusted(trusted, peer) and "x-forwarded-for" not in request.headers


def _peer_address(request: Request) -> Address | None:
    return _parse_address(str(request.conn_info.client_ip if request.conn_info else ""))


def _parse_address(text: str) -> Address | None:
    """An address, with a port or without, of IPv4 even where it is written as IPv6; None for anything else."""
    try:
        found = ipaddress.ip_address(strip_port(text).partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _is_trusted(trusted: tuple[str, ...], address: Address) -> bool:
    return any(address in network for network in _trusted_networks(trusted))


_trusted_networks = functools.cache(parse_networks)


# --- Which host, whose page ------------------------------------------------------------------------------------------


def check_host(service: AppContext, request: Request) -> None:
    """ApiError `http.host` for a request that was meant for another host, once `server.base_url` says which is ours.

    Health checks may name any host: they ask by address. So may who asks on loopback for loopback.
    """
    ours = service.runtime.settings.server.base_url
    if not ours or request.path in HEALTH_PATHS:
        return
    named, host = request.headers.getall("host", []), _host_of(ours)
    if named == [host]:
        return  # as nearly everybody writes it
    if len(named) != 1 or not (_is_same_host(named[0], ours) or is_local(request, named[0])):
        raise rule_error("http.host", f"This server is {host}; the request is for another host.")


@functools.lru_cache(1)
def _host_of(base_url: str) -> str:
    return urlsplit(base_url).netloc


def _is_same_host(named: str, base_url: str) -> bool:
    scheme, host = base_url.split("://", 1)
    wanted = urlsplit(f"//{host}")
    try:
        given = urlsplit(f"//{named}")
        port = given.port
    except ValueError:
        return False
    standard = _PORTS[scheme]
    return given.hostname == wanted.hostname and (port or standard) == (wanted.port or standard) and "/" not in named


def is_local(request: Request, named: str) -> bool:
    """Whether the peer is on loopback, and the host that it names is too."""
    peer = _peer_address(request)
    return is_loopback(named) and peer is not None and peer.is_loopback


def is_loopback(host: str) -> bool:
    """Whether a host, with a port or without, is this machine's own name for itself."""
    address = _parse_address(host)
    return host.partition(":")[0].lower() == "localhost" or (address is not None and address.is_loopback)


def is_same_origin(headers: Mapping[str, str], base_url: str) -> bool:
    """Fetch metadata and Origin agree that the request comes from a page of this server, where a browser says so."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin == "null":
        # What browsers send for forms of pages with `Referrer-Policy: no-referrer`, such as ours.
        return "sec-fetch-site" in headers
    if origin is None:
        return True
    try:
        named = urlsplit(origin).netloc
    except ValueError:
        return False
    return named in (urlsplit(base_url).netloc, headers.get("host", ""))
