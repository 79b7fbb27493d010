"""Request headers: our cookies, the client's address, and the checks of host and origin.

Each is read in one pass.

Sanic's readers of cookies and forwarded addresses are not used: they take quadratic time in a header's length.
"""

from __future__ import annotations

import functools
import ipaddress
from urllib.parse import urlsplit

from sanic import Request

from socialpub.base.errors import rule_error
from socialpub.base.value_formats import parse_networks, strip_port
from socialpub.domain.context.app_context import AppContext

SESSION_COOKIE = "socialpub_session"
DEVICE_COOKIE = "socialpub_device"
HEALTH_PATHS = ("/healthz", "/readyz")
_PORTS = {"http": 80, "https": 443}
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


# --- Cookies -----------------------------------------------------------------------------------------------------


def cookie_name(service: AppContext, cookie: str = SESSION_COOKIE) -> str:
    """Return a cookie's name, with `__Host-` on https."""
    return ("__Host-" if service.base_url.startswith("https:") else "") + cookie


def read_cookie(service: AppContext, request: Request, cookie: str = SESSION_COOKIE) -> str | None:
    """Return the value of one of our cookies, the first of that name, or None."""
    wanted = cookie_name(service, cookie)
    for header in request.headers.getall("cookie", []):
        for pair in header.split(";"):
            name, _, value = pair.partition("=")
            if name.strip() == wanted:
                return value.strip() or None
    return None


# --- The client's address ------------------------------------------------------------------------------------------


def find_client(service: AppContext, request: Request) -> str:
    """Return the client for rate limits: an IPv4 address, or an IPv6 /64 network.

    One customer usually has a whole /64. It is the peer's address. If the peer is a trusted proxy, it is the last
    address in X-Forwarded-For that is not one.
    """
    address = _peer_address(request)
    if address is None:
        return request.conn_info.client_ip if request.conn_info else ""
    trusted = tuple(service.runtime.settings.server.trusted_proxies)
    forwarded = ",".join(request.headers.getall("x-forwarded-for", []))
    hops = [part for part in map(str.strip, forwarded.split(",")) if part]
    while hops and _is_trusted(trusted, address):
        hop = _parse_address(hops.pop())
        if hop is None:
            break
        address = hop
    return str(address if address.version == 4 else ipaddress.ip_network((address, 64), strict=False))


def is_client_unnamed(service: AppContext, request: Request) -> bool:
    """Return whether the peer is a trusted proxy or this machine and sent no X-Forwarded-For."""
    peer = _peer_address(request)
    trusted = tuple(service.runtime.settings.server.trusted_proxies)
    return peer is not None and _is_trusted(trusted, peer) and "x-forwarded-for" not in request.headers


def _peer_address(request: Request) -> Address | None:
    return _parse_address(str(request.conn_info.client_ip if request.conn_info else ""))


def _parse_address(text: str) -> Address | None:
    """Return an address given with or without a port (IPv4-mapped IPv6 as IPv4), or None."""
    try:
        found = ipaddress.ip_address(strip_port(text).partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _is_trusted(trusted: tuple[str, ...], address: Address) -> bool:
    return any(address in network for network in _trusted_networks(trusted))


_trusted_networks = functools.cache(parse_networks)


# --- Host and origin -----------------------------------------------------------------------------------------------


def check_host(service: AppContext, request: Request) -> None:
    """Raise ApiError `http.host` unless the request is for the configured host.

    Without `server.base_url` every host is accepted. Health checks may use any host, since they connect by address.
    So may loopback clients that name loopback.
    """
    base_url = service.runtime.settings.server.base_url
    if not base_url or request.path in HEALTH_PATHS:
        return
    named = request.headers.getall("host", [])
    if len(named) != 1 or not (_is_same_host(named[0], base_url) or is_local(request, named[0])):
        raise rule_error("http.host", f"This server is {urlsplit(base_url).netloc}; the request is for another host.")


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
    """Return whether both the peer and the host that it names are loopback."""
    peer = _peer_address(request)
    return is_loopback(named) and peer is not None and peer.is_loopback


def is_loopback(host: str) -> bool:
    """Return whether a host, with or without a port, is `localhost` or a loopback address."""
    address = _parse_address(host)
    return host.partition(":")[0].lower() == "localhost" or (address is not None and address.is_loopback)


def is_same_origin(service: AppContext, request: Request) -> bool:
    """Return whether Sec-Fetch-Site and Origin, if sent, name a page of this server."""
    headers = request.headers
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin == "null":
        # Browsers send this for forms of pages with `Referrer-Policy: no-referrer`, such as ours.
        return "sec-fetch-site" in headers
    if origin is None:
        return True
    try:
        named = urlsplit(origin).netloc
    except ValueError:
        return False
    return named in (urlsplit(service.base_url).netloc, headers.get("host", ""))
