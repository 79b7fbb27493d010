"""Formats of values that are given as text: durations, network addresses, e-mail addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import BeforeValidator

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, None: 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION_MAX_DAYS = 36_500

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_WITH_PORT = re.compile(r"\[([0-9A-Fa-f:.%]+)\](?::[0-9]{1,5})?|([0-9.]+):[0-9]{1,5}")

_EMAIL_ATOM, _EMAIL_LABEL = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+", "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
EMAIL_PATTERN = rf"^{_EMAIL_ATOM}(?:\.{_EMAIL_ATOM})*@{_EMAIL_LABEL}(?:\.{_EMAIL_LABEL})*$"
"""A bare e-mail address that every mail server accepts: no display name, no quotes, ASCII only."""
EMAIL_MAX = 254


def parse_duration(value: object) -> float:
    """Return the seconds of a duration: a number, or text such as "30s", "5m", "12h", "7d".

    Raise ValueError for any other text, and for more than a century.
    """
    match = _DURATION.fullmatch(str(value).strip())
    if match is None:
        raise ValueError('a duration is a number of seconds, or text such as "30s", "5m", "12h", "7d"')
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > DURATION_MAX_DAYS * _UNITS["d"]:
        raise ValueError(f'a duration is at most "{DURATION_MAX_DAYS}d"')
    return seconds


Duration = Annotated[float, BeforeValidator(parse_duration)]


def strip_port(text: str) -> str:
    """Return an address without the brackets and port that proxies write around it."""
    match = _WITH_PORT.fullmatch(text)
    return (match[1] or match[2]) if match else text


def parse_networks(entries: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks of a list of addresses and networks.

    Ports are ignored. Raise ValueError for an entry that is neither.
    """
    return tuple(ipaddress.ip_network(strip_port(entry.strip()), strict=False) for entry in entries)
