"""Immediate posts one after another: how much longer than the platform itself a post takes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from benchmarks import load
from benchmarks.load import Loaded
from benchmarks.shares import IMMEDIATE_ACCOUNTS
from benchmarks.stage import Side, Simulator


@dataclass
class Alone:
    """The rounds: what the platform's own call takes, and by side what a post does."""

    upstream: list[Loaded] = field(default_factory=list)
    loads: dict[str, list[Loaded]] = field(default_factory=dict)

    def above(self, side: str) -> float:
        """Milliseconds."""
        pairs = zip(self.loads[side], self.upstream, strict=True)
        return statistics.median(post.p50 - call.p50 for post, call in pairs)

    def line(self, side: str) -> str:
        loads = self.loads[side]
        p50, p99, cpu, switches = (
            statistics.median(values)
            for values in zip(*((one.p50, one.p99, one.cpu_ms, one.switches) for one in loads), strict=True)
        )
        upstream = statistics.median(call.p50 for call in self.upstream)
        return (
            f"{'immediate_alone':<18}{side:<10}{self.above(side):>6.1f} ms above the upstream's {upstream:.1f} ms;"
            f" p50 {p50:.1f}, p99 {p99:.1f}, CPU {cpu:.2f} ms, {switches:.1f} switches"
        )


def measure(sides: Sequence[Side], simulator: Simulator, folder: Path, rounds: int, seconds: int) -> Alone:
    found = Alone(loads={side.name: [] for side in sides})
    call = _call(simulator)
    for _ in range(rounds):
        found.upstream.append(load.run(call, simulator.origin, simulator.process, folder, seconds, connections=1))
        for side in sides:
            script = load.post("/v1/posts", side.key, side.accounts[:IMMEDIATE_ACCOUNTS])
            found.loads[side.name].append(load.run(script, side.url, side.running, folder, seconds, connections=1))
    return found


def _call(simulator: Simulator) -> load.Script:
    """The platform's own call for a post, as socialpub makes it."""
    account = simulator.account("upstream.test")
    given = {"identifier": account["handle"], "password": account["appPassword"]}
    session = httpx.post(f"{simulator.origin}/xrpc/com.atproto.server.createSession", json=given, trust_env=False)
    signed = session.raise_for_status().json()
    return load.record(signed["accessJwt"], signed["did"])
