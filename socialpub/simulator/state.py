"""State shared by all fake platforms, and the handle on them for tests."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from socialpub.base.runtime import Clock
from socialpub.simulator.contract import FakePlatform
from socialpub.simulator.faults import MAX_WAIT_SECONDS, FaultScript, parse_faults
from socialpub.simulator.ledger import Ledger, PublishedMedia

_KEPT_BYTES = 64 * 1024  # stored bytes of a call's body
_KEPT_CALLS = 10_000
_FORGOTTEN_CALLS = 1_000  # dropped at a time, because dropping copies the rest


MAX_WAIT_MS = MAX_WAIT_SECONDS * 1000


class Settings(BaseModel):
    """Settings of all fake platforms."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    latency_ms: Annotated[int, Field(ge=0, le=MAX_WAIT_MS)] = 0
    """Added to every call, before its effect."""
    list_lag_ms: Annotated[int, Field(ge=0, le=MAX_WAIT_MS)] = 0
    """How long a new post is missing from lists (not from lookups by id)."""
    list_limit: Annotated[int, Field(ge=1)] | None = None
    """The most items on one page of a list, regardless of the client's limit."""
    rate_limits: bool = False
    """Whether the platforms enforce their rate limits."""
    processing_ms: Annotated[int, Field(ge=0, le=MAX_WAIT_MS)] = 300
    """How long a container or video is being processed before it can be published."""


@dataclass
class ReceivedCall:
    """Received call. `status` is None while it is in progress, or if it got no response."""

    n: int
    at_ms: int
    platform: str
    operation: str
    method: str
    path: str  # with query
    headers: Mapping[str, str]
    body: bytes  # first 64 KiB
    size: int
    fault: str | None = None
    status: int | None = None

    def body_json(self) -> dict[str, Any]:
        return {**asdict(self), "body": self.body.decode("utf-8", "replace")}


@dataclass(frozen=True)
class StoredBlob:
    content: bytes
    type: str


@dataclass
class SimulatorState:
    """Ledger, faults, settings, accounts and received calls. Thread-safe."""

    clock: Clock
    factories: Mapping[str, Callable[[SimulatorState], FakePlatform]]  # factories of the fake platforms, by name
    ledger_file: Path | None = None
    settings: Settings = field(default_factory=Settings)
    faults: FaultScript = field(default_factory=FaultScript)
    calls: list[ReceivedCall] = field(default_factory=list)  # the last ten thousand, or slightly more
    blobs: dict[str, StoredBlob] = field(default_factory=dict)  # by sha256, for the control page
    origins: dict[str, str] = field(default_factory=dict)  # by platform, once served
    lock: threading.RLock = field(default_factory=threading.RLock)
    resets: int = 0
    _arrived: int = 0

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.clock, self.ledger_file)
        self.fakes: dict[str, FakePlatform] = {name: make(self) for name, make in self.factories.items()}

    def fake(self, platform: str) -> FakePlatform:
        """Return a fake platform. Raises ValueError if there is none with this name."""
        if platform not in self.fakes:
            raise ValueError(f"there is no fake platform {platform!r}; there are {', '.join(self.fakes)}")
        return self.fakes[platform]

    def add_account(self, platform: str, /, **wanted: Any) -> dict[str, Any]:
        """Create an account; return its credentials. Raises ValueError if the platform refuses."""
        with self.lock:
            return self.fake(platform).add_account(wanted)

    def add_faults(self, wanted: Sequence[Any]) -> None:
        """Append faults. Raises ValueError, and adds none, if one is wrong or matches no call."""
        faults = parse_faults(wanted)
        names = [(fake.name, operation.name) for fake in self.fakes.values() for operation in fake.operations()]
        for fault in faults:
            if not any(fault.matches(*name) for name in names):
                known = [name for platform, name in names if fnmatchcase(platform, fault.platform)]
                there = ", ".join(known or self.fakes)
                raise ValueError(f"nothing matches {fault.platform!r}, {fault.operation!r}; there are {there}")
        self.faults.add(faults)

    def end_tokens(
        self, platform: str, account: str | None = None, *, access: bool = True, refresh: bool = False
    ) -> None:
        """Expire access tokens, or revoke refresh tokens, of one account or all."""
        with self.lock:
            self.fake(platform).end_tokens(account, access=access, refresh=refresh)

    def configure(self, /, **changes: Any) -> None:
        """Change settings (camelCase or snake_case). Raises pydantic.ValidationError."""
        with self.lock:
            wanted = Settings.model_validate(changes)
            self.settings = self.settings.model_copy(update=wanted.model_dump(exclude_unset=True))

    def received(
        self, platform: str, operation: str, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> ReceivedCall:
        """Record a call at its arrival."""
        with self.lock:
            self._arrived += 1
            call = ReceivedCall(
                self._arrived,
                self.clock.now_ms(),
                platform,
                operation,
                method,
                path,
                headers,
                body[:_KEPT_BYTES],
                len(body),
            )
            self.calls.append(call)
            if len(self.calls) >= _KEPT_CALLS + _FORGOTTEN_CALLS:
                del self.calls[:-_KEPT_CALLS]
        return call

    def add_medium(self, content: bytes, content_type: str, alt: str | None = None) -> PublishedMedia:
        """Store the bytes of a medium; return its ledger entry part."""
        sha256 = hashlib.sha256(content).hexdigest()
        self.blobs[sha256] = StoredBlob(content, content_type)
        return PublishedMedia(sha256, len(content), content_type, alt)

    def reset(self) -> None:
        """Clear ledger, calls, faults and everything published; reset settings. Accounts stay.

        Effects that faults have delayed are dropped.
        """
        with self.lock:
            self.resets += 1
            self.ledger.clear()
            self.faults.clear()
            self.calls.clear()
            self.blobs.clear()
            self.settings = Settings()
            for fake in self.fakes.values():
                fake.reset()
