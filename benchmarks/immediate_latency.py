"""Benchmark of immediate posts: latency added to the platform's own."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks import wrk_load
from benchmarks.goals import ALONE, ALONE_LOSS, BenchmarkResult
from benchmarks.servers import BenchmarkSetup, SimulatorProcess
from benchmarks.throughput import IMMEDIATE_ACCOUNTS
from benchmarks.wrk_load import LoadResult


@dataclass
class LatencyRounds:
    """The rounds: what the platform's own call takes, and by side what a post does."""

    upstream: list[LoadResult] = field(default_factory=list)
    loads: dict[str, list[LoadResult]] = field(default_factory=dict)

    def above(self, side: str) -> float:
        """Milliseconds."""
        pairs = zip(self.loads[side], self.upstream, strict=True)
        return statistics.median(post.p50 - call.p50 for post, call in pairs)

    def longer(self, side: str, beside: str) -> float:
        """How much longer a post takes on the first side than on the second, in the middle of the rounds."""
        pairs = zip(self.loads[side], self.loads[beside], strict=True)
        return statistics.median(one.p50 / other.p50 for one, other in pairs) - 1

    def told(self, side: str) -> str:
        loads = self.loads[side]
        seen = zip(*((one.p50, one.p99, one.cpu_ms, one.switches) for one in loads), strict=True)
        p50, p99, cpu, switches = map(statistics.median, seen)
        upstream = statistics.median(call.p50 for call in self.upstream)
        return (
            f"{side}: p50 {p50:.1f} ms, p99 {p99:.1f} ms; the upstream's own {upstream:.1f} ms;"
            f" CPU {cpu:.2f} ms, {switches:.1f} switches a post"
        )


def measure(stage: BenchmarkSetup) -> Iterator[BenchmarkResult]:
    """The platform's own call and each side's posts, by turns."""
    return results(stage, rounds(stage))


def rounds(stage: BenchmarkSetup) -> LatencyRounds:
    found = LatencyRounds(loads={side.name: [] for side in stage.sides})
    simulator = stage.simulator
    for _ in range(stage.rounds):
        call = _call(simulator)
        found.upstream.append(
            wrk_load.run(call, simulator.origin, simulator.process, stage.folder, stage.seconds, connections=1)
        )
        for side in stage.sides:
            script = wrk_load.post("/v1/posts", side.people.key, side.people.accounts[:IMMEDIATE_ACCOUNTS])
            done = wrk_load.run(script, side.url, side.running, stage.folder, stage.seconds, connections=1)
            found.loads[side.name].append(done)
    return found


def results(stage: BenchmarkSetup, found: LatencyRounds) -> Iterator[BenchmarkResult]:
    """The rows of what the rounds were."""
    note = "; ".join(
        f"{found.told(side.name)}" + (f", {found.above(side.name):.1f} ms above" if number else "")
        for number, side in enumerate(stage.sides)
    )
    yield BenchmarkResult(ALONE, found.above(stage.first.name), note)
    if stage.empty is not None:
        yield BenchmarkResult(ALONE_LOSS, 100 * found.longer(stage.first.name, stage.empty.name))


def _call(simulator: SimulatorProcess) -> wrk_load.LoadScript:
    """The platform's own call for a post, of somebody new: nobody may post a text twice."""
    return wrk_load.LoadScript(
        f"local n, headers = 0, {wrk_load.headers(simulator.account()['accessToken'])}\n"
        "request = function()\n"
        "  n = n + 1\n"
        "  return wrk.format('POST', '/2/tweets', headers, '{\"text\":\"Alone ' .. n .. '\"}')\n"
        "end\n"
    )
