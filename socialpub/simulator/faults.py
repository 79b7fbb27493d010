"""Scripted faults: which call fails, and how. `dispatch.py` performs them."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator
from pydantic.alias_generators import to_camel

MAX_WAIT_SECONDS = 86_400
_STATUS = re.compile("[2-5][0-9]{2}")
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")


@dataclass(frozen=True)
class FaultKind:
    """Kind of fault. `perform`: whether the operation is performed (a fault may override it).

    `takes`: the meaning of the value after the colon.
    """

    effect: bool
    takes: Literal["", "seconds", "status"] = ""


FAULT_KINDS: Mapping[str, FaultKind] = {
    "ok": FaultKind(effect=True),
    "delay": FaultKind(effect=True, takes="seconds"),  # before the effect, even if the client disconnects
    "status": FaultKind(effect=False, takes="status"),
    "error_after": FaultKind(effect=True),
    "reset_before": FaultKind(effect=False),
    "reset_after": FaultKind(effect=True),
    "late_effect": FaultKind(effect=True, takes="seconds"),  # after the client has disconnected
    "slow": FaultKind(effect=True),
    "endless": FaultKind(effect=True),
    "html": FaultKind(effect=False),
    "truncated": FaultKind(effect=True),
    "wrong_type": FaultKind(effect=True),
    "missing_id": FaultKind(effect=True),
    "redirect_self": FaultKind(effect=False),
    "redirect_private": FaultKind(effect=False),
    "gzip_bomb": FaultKind(effect=True),
}


class Fault(BaseModel):
    """Fault with the calls that it matches (globs), and which of those it affects.

    Without `nth`, `times` and `probability`, all matching calls. `nth`: from the nth matching call, only that one
    unless `times` is set; `times` limits the count. `probability` is drawn from `seed` and the call's number.
    """

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True, frozen=True)

    fault: str
    platform: str = "*"
    operation: str = "*"
    nth: Annotated[int, Field(ge=1)] | None = None
    times: Annotated[int, Field(ge=1)] | None = None
    probability: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: int = 0
    effect: bool | None = None
    retry_after: Annotated[int, Field(ge=0)] | None = None
    body: Any = None

    @field_validator("fault")
    @classmethod
    def _known(cls, value: str) -> str:
        name, colon, amount = value.partition(":")
        kind = FAULT_KINDS.get(name)
        if kind is None:
            raise ValueError(f"there is no fault {name!r}; there are {', '.join(FAULT_KINDS)}")
        if bool(kind.takes) != bool(colon):
            raise ValueError(f"write {name}:{kind.takes.upper()}" if kind.takes else f"{name} takes no value")
        if kind.takes == "status" and not _STATUS.fullmatch(amount):
            raise ValueError("a status is a number from 200 to 599")
        if kind.takes == "seconds" and not (_SECONDS.fullmatch(amount) and float(amount) <= MAX_WAIT_SECONDS):
            raise ValueError(f"seconds are a number from 0 to {MAX_WAIT_SECONDS}")
        return value

    @property
    def kind(self) -> str:
        return self.fault.partition(":")[0]

    @property
    def amount(self) -> float:
        return float(self.fault.partition(":")[2] or 0)

    @property
    def takes_effect(self) -> bool:
        return FAULT_KINDS[self.kind].effect if self.effect is None else self.effect

    def matches(self, platform: str, operation: str) -> bool:
        return fnmatchcase(platform, self.platform) and fnmatchcase(operation, self.operation)

    def hits(self, seen: int, fired: int) -> bool:
        """Return whether the fault affects the `seen`-th matching call after `fired` hits."""
        last_hit = self.times if self.times is not None else (1 if self.nth is not None else None)
        if seen < (self.nth or 1) or (last_hit is not None and fired >= last_hit):
            return False
        return self.probability is None or _draw(self.seed, seen) < self.probability


def _draw(seed: int, number: int) -> float:
    """Return a deterministic number from 0 to 1."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{number}".encode()).digest()[:8], "big") / 2**64


@dataclass
class _ScriptLine:
    fault: Fault
    seen: int = 0
    fired: int = 0


_SCRIPT = TypeAdapter(list[Fault])


def parse_faults(faults: Sequence[Fault | Mapping[str, Any]]) -> list[Fault]:
    """Return the faults. Raises pydantic.ValidationError if one is malformed."""
    return _SCRIPT.validate_python(list(faults))


@dataclass
class FaultScript:
    """Active faults. If several match a call, the first in the list applies."""

    _lines: list[_ScriptLine] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, faults: Sequence[Fault | Mapping[str, Any]]) -> None:
        """Append faults. Raises pydantic.ValidationError, with none added, if one is malformed."""
        checked = parse_faults(faults)
        with self._lock:
            self._lines += [_ScriptLine(fault) for fault in checked]

    def clear(self) -> None:
        with self._lock:
            self._lines.clear()

    def next(self, platform: str, operation: str) -> Fault | None:
        """Return the fault for the call that has just arrived."""
        with self._lock:
            lines = [line for line in self._lines if line.fault.matches(platform, operation)]
            for line in lines:
                line.seen += 1
            hit = next((line for line in lines if line.fault.hits(line.seen, line.fired)), None)
            if hit is None:
                return None
            hit.fired += 1
            return hit.fault

    def body(self) -> list[dict[str, Any]]:
        """Return the faults with their counts of matches and hits."""
        with self._lock:
            return [
                {**line.fault.model_dump(by_alias=True, exclude_defaults=True), "seen": line.seen, "fired": line.fired}
                for line in self._lines
            ]
