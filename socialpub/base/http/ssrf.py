"""SSRF guard: which addresses a call may reach when a user, or a response, named the URL.

Two checks: of the URL's text, before its name is resolved, and of every address that its host resolves to. The second
one protects; the first one gives an early, clear error, and refuses forms that only attacks use.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

HTTPS_PORT = 443
NOT_HTTPS = "it is not https"

# Own table and not ipaddress.is_global, which calls several translation and multicast ranges global.
_DENIED_IPV4 = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 "
        "192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 "
        "198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 "
        "168.63.129.16/32"  # Azure's metadata and platform services
    ).split()
)
# IPv6: only 2000::/3 is public, and not all of it.
_PUBLIC_IPV6 = ipaddress.ip_network("2000::/3")
_DENIED_IPV6 = tuple(
    ipaddress.ip_network(text) for text in "2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20".split()
)
_DENIED_NAMES = ("metadata.goog",)
_DENIED_SUFFIXES = (
    ".localhost",
    ".local",
    ".localdomain",
    ".internal",
    ".intranet",
    ".lan",
    ".home",
    ".corp",
    ".private",
    ".home.arpa",
    ".onion",
    ".svc",
    ".in-addr.arpa",
    ".ip6.arpa",
)
_HOST_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\.?", re.ASCII)
_ANY_HOST = re.compile(rf"(?i:{_HOST_NAME.pattern})|(?=[0-9a-f.]*:)[0-9a-f:.]+(?:%.+)?", re.ASCII)
# Forms that the system's resolver reads as an IPv4 address: 127.1, 2130706433, 0x7f.1
_NUMERIC_END = re.compile(r"(?:.*\.)?(?:\d+|0x[0-9a-f]*)", re.ASCII)
_CREDENTIALS_PATTERN = re.compile(r"[^/?#]*//[^/?#]*@")
HAS_CREDENTIALS = "it carries credentials"

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class AllowedHosts:
    """Hosts that the operator allowed although they are private.

    A host named by its name may also be called over plain http.
    """

    hosts: frozenset[str] = frozenset()
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()

    def has_host(self, host: str) -> bool:
        """Return whether the host, as a name or as an address, is allowed."""
        return host.rstrip(".") in self.hosts or self.has_address(host)

    def has_address(self, text: str) -> bool:
        if not self.networks:
            return False
        try:
            address: IpAddress = ipaddress.ip_address(text)
        except ValueError:
            return False
        return any(address in network for network in self.networks)


NO_ALLOWED_HOSTS = AllowedHosts()


def parse_allowed_hosts(entries: Iterable[str]) -> AllowedHosts:
    """Return the hosts and networks in a list. Raise ValueError for an entry that is neither."""
    hosts, networks = set(), []
    for entry in entries:
        text = entry.strip().lower().rstrip(".")
        try:
            networks.append(ipaddress.ip_network(text.strip("[]"), strict=False))
        except ValueError:
            if not _HOST_NAME.fullmatch(text) or _NUMERIC_END.fullmatch(text):
                raise ValueError(f"{entry!r} is not a host name, an address or a network") from None
            hosts.add(text)
    return AllowedHosts(frozenset(hosts), tuple(networks))


def is_public_address(text: str) -> bool:
    """Return whether a call to a user's URL may connect to this address."""
    try:
        address: IpAddress = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _DENIED_IPV4)
    if address.scope_id is not None:
        return False
    return address in _PUBLIC_IPV6 and not any(address in network for network in _DENIED_IPV6)


def is_own_address(text: str) -> bool:
    """Return whether the address is this machine's, by binding a socket to it."""
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((text, 0))
        except OSError:
            return False
    return True


def may_connect(address: str, port: int) -> bool:
    """Return whether a guarded call may connect to the address and port.

    On this machine's own public addresses only https: other services there (this server included) may be closed to the
    outside but open locally.
    """
    return is_public_address(address) and (port == HTTPS_PORT or not is_own_address(address))


def has_credentials(url: str) -> bool:
    """Return whether the URL carries a user name or a password, by its text."""
    return _CREDENTIALS_PATTERN.match(url) is not None


def check_url(url: str, *, allow_private: bool = False, named: AllowedHosts = NO_ALLOWED_HOSTS) -> str | None:
    """Return why a user's URL must not be called, by its text alone; None if it may be.

    `allow_private` allows any http or https URL with a host (`security.allow_private_networks`), `named` these hosts.
    """
    if not url.isprintable() or " " in url or "\\" in url:
        return "it is not a URL"
    try:
        # The parser of the HTTP client: two parsers could see two hosts in one URL.
        parts = httpx.URL(url)
        host = parts.raw_host.decode("ascii")
        port = urlsplit(url).port  # what else reads the URL can read it too, and the port exists
    except (httpx.InvalidURL, ValueError):
        return "it is not a URL"
    if allow_private and parts.scheme in ("http", "https"):
        return None if _ANY_HOST.fullmatch(host) else "it has no host"
    if has_credentials(url):
        return HAS_CREDENTIALS
    if named.has_host(host.lower()) and parts.scheme in ("http", "https"):
        return None
    if parts.scheme != "https":
        return NOT_HTTPS
    if port is not None and port != HTTPS_PORT and not 1024 <= port <= 65535:
        return "its port is reserved"
    return _check_host(host.lower())


def _check_host(host: str) -> str | None:
    name = host.rstrip(".")
    if not name:
        return "it has no host"
    if ":" in name or _is_ipv4(name):
        return None if is_public_address(name) else "its address is private"
    if _NUMERIC_END.fullmatch(name) or not _HOST_NAME.fullmatch(host):
        return "its host is not a name"
    if "." not in name or name in _DENIED_NAMES or name.endswith(_DENIED_SUFFIXES):
        return "its host is private"
    return None


def _is_ipv4(name: str) -> bool:
    try:
        ipaddress.IPv4Address(name)
    except ValueError:
        return False
    return True
