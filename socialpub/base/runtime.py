"""The dependencies that tests replace: clock, ids, randomness, HTTP, vault, settings."""

from __future__ import annotations

import functools
import secrets
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, overload

from socialpub.base import config
from socialpub.base import http as outbound
from socialpub.base.http import ssrf
from socialpub.base.security import crypto, master_key_file, private_files
from socialpub.base.system import host_identity, os_errors

ClientFactory = Callable[
    [outbound.ConnectionPolicy, Callable[[], int], outbound.BaseTransport | None], outbound.HttpClient
]
TransportWrapper = Callable[[outbound.BaseTransport], outbound.BaseTransport]


class Clock(Protocol):
    """Wall time and monotonic time: the only source of either in the program."""

    def now_ms(self) -> int: ...

    def monotonic(self) -> float: ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


DAY_MS = 24 * 3600 * 1000  # milliseconds, as all times of the program
SYSTEM_ENTROPY: crypto.Entropy = secrets.token_bytes


@dataclass
class IdGenerator:
    """Generates rising ids: UUIDv7 (RFC 9562) with a counter."""

    clock: Clock
    entropy: crypto.Entropy
    _last: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def _uuid7(self) -> int:
        with self._lock:
            # 48 bits of milliseconds and a 12-bit counter.
            stamp = self.clock.now_ms() << 12
            if stamp <= self._last:
                stamp = self._last + 1
            self._last = stamp
        random = int.from_bytes(self.entropy(8)) >> 2
        return (stamp >> 12 << 80) | (0x7000 | stamp & 0xFFF) << 64 | 0b10 << 62 | random

    def uuid(self) -> str:
        text = f"{self._uuid7():032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def prefixed(self, prefix: str) -> str:
        """Return `prefix` (such as `evt_`) followed by 22 base62 characters of a UUIDv7."""
        return prefix + crypto.encode_base62(self._uuid7(), 22)


@dataclass(frozen=True)
class Runtime:
    """The settings and the process-wide dependencies, passed to every component."""

    settings: config.Settings
    vault: crypto.Vault
    clock: Clock = field(default_factory=SystemClock)
    entropy: crypto.Entropy = SYSTEM_ENTROPY
    resolver: outbound.Resolver = outbound.resolve
    client: ClientFactory = outbound.HttpClient
    host: host_identity.HostIdentity = field(default_factory=host_identity.identify_host)
    ids: IdGenerator = field(init=False)
    webhook_policy: outbound.ConnectionPolicy = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", IdGenerator(self.clock, self.entropy))
        named = ssrf.parse_allowed_hosts(self.settings.webhooks.allowed_hosts)
        object.__setattr__(self, "webhook_policy", replace(self.http_policy(guarded=True), named=named))

    def open_http(self, policy: outbound.ConnectionPolicy, wrap: TransportWrapper | None = None) -> outbound.HttpClient:
        """Return a client; close it (or use `with`).

        `wrap` wraps its transport.
        """
        return self.client(policy, self.clock.now_ms, wrap(outbound.HttpTransport(policy)) if wrap else None)

    @functools.cached_property
    def webhook_http(self) -> outbound.HttpClient:
        """The client of webhook deliveries, for all threads: making one takes 6 % of a delivery."""
        return self.open_http(self.webhook_policy)

    def http_policy(self, *, guarded: bool) -> outbound.ConnectionPolicy:
        """Return the policy of calls: `guarded` for URLs of users, else for configured hosts."""
        return _get_policy(guarded and not self.settings.security.allow_private_networks, self.resolver)


@functools.lru_cache(64)
def _get_policy(guarded: bool, resolver: outbound.Resolver) -> outbound.ConnectionPolicy:
    """Return one object per policy: pooled connections are keyed by it."""
    return outbound.ConnectionPolicy(guarded, resolver)


def load_vault(settings: config.Settings, *, needed: Collection[str] = ()) -> crypto.Vault:
    """Return the vault of the configured master keys, or of the key file.

    The key file is created unless a key is `needed`: these are ids of keys with which something is encrypted. Raise
    ConfigError if one of them is missing, a key is malformed, or the file is readable by other users.
    """
    named = settings.security.encryption_keys
    try:
        keys = [crypto.parse_master_key(text) for text in named]
        keys = keys or _load_key_file(settings.key_file, make=not needed)
        _check_required_keys(keys, needed, settings.key_file)
    except ValueError as error:
        where = "security.encryption_keys" if named else str(settings.key_file)
        raise config.ConfigError(f"{where}: {error}") from error
    return crypto.Vault(keys, SYSTEM_ENTROPY, None if named else functools.partial(read_key_file, settings.key_file))


def read_key_file(key_file: Path) -> list[crypto.MasterKey]:
    """Return the keys of a key file; raise OSError if it cannot be read or holds no keys."""
    try:
        return crypto.parse_master_keys(key_file.read_text(encoding="ascii", errors="replace"))
    except ValueError as error:
        raise OSError(f"{key_file}: {error}") from error


def _check_required_keys(keys: Collection[crypto.MasterKey], needed: Collection[str], key_file: Path) -> None:
    """Raise ValueError before something is encrypted with a key of another database."""
    available = {key.id for key in keys}
    missing = sorted(set(needed) - available)
    if missing:
        retired = [
            str(path) for key in missing if (path := master_key_file.get_retired_key_path(key_file, key)).exists()
        ]
        advice = f"it is in {retired[0]}, copy it here" if retired else "restore that one from your backup"
        raise ValueError(
            f"this database was encrypted with another master key (id {', '.join(missing)}; here: "
            f"{', '.join(sorted(available))}); {advice}, secrets cannot be read without it"
        )


def find_key_problem(settings: config.Settings, needed: str) -> str | None:
    """Return why the next start could not decrypt with the key `needed`; None if it could.

    The text names no path.
    """
    named = settings.security.encryption_keys
    place = "security.encryption_keys" if named else "the key file"
    try:
        keys = [crypto.parse_master_key(text) for text in named]
        keys = keys or crypto.parse_master_keys(settings.key_file.read_text(encoding="ascii", errors="replace"))
    except FileNotFoundError:
        return "the key file is gone"
    except OSError as error:
        return f"the key file cannot be read: {os_errors.describe(error)}"
    except ValueError:
        return f"{place} holds no key"
    return None if needed in {key.id for key in keys} else f"{place} holds another key"


def _load_key_file(path: Path, *, make: bool) -> list[crypto.MasterKey]:
    try:
        return _read_or_create_key_file(path, make)
    except OSError as error:
        why = os_errors.find_access_problem(path) or os_errors.describe(error)
        raise ValueError(f"the key file cannot be used: {why}{private_files.suggest_chown(path)}") from error


def _read_or_create_key_file(path: Path, make: bool) -> list[crypto.MasterKey]:
    if not path.exists():
        if not make:
            raise ValueError("the key file is missing; restore it from your backup, secrets cannot be read without it")
        master_key_file.create(path, crypto.MasterKey(SYSTEM_ENTROPY(32)))
    if path.stat().st_mode & 0o077:
        raise ValueError("the key file can be read by other users; run: chmod 600 " + str(path))
    return crypto.parse_master_keys(path.read_text(encoding="ascii", errors="replace"))


@overload
def format_iso(ms: int) -> str: ...
@overload
def format_iso(ms: None) -> None: ...
@overload
def format_iso(ms: int | None) -> str | None: ...
def format_iso(ms: int | None) -> str | None:
    """Return an instant in the API's format: UTC, milliseconds, `Z`."""
    if ms is None:
        return None
    return f"{_format_second(ms // 1000)}.{ms % 1000:03d}Z"


@functools.lru_cache(1024)
def _format_second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
