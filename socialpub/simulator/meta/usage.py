"""Meta's rate limits: usage headers in percent, refusals above 100.

Source: graph-api/overview/rate-limiting. Off unless the setting `rateLimits` is on. Calls are counted per token in a
sliding window of an hour.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.forms import bearer
from socialpub.simulator.meta.graph import refuse
from socialpub.simulator.state import SimulatorState

HOUR_MS = 3_600_000


@dataclass
class Meter:
    """Call counter of one platform. `code`: of the refusal; `budget`: calls per hour."""

    lab: SimulatorState
    kind: str
    code: int
    budget: int = 200
    _calls: dict[str, list[int]] = field(default_factory=dict)

    def count_calls(self, operations: Iterable[Operation]) -> tuple[Operation, ...]:
        """Wrap operations in the counter."""
        return tuple(replace(operation, handle=self._counted(operation.handle)) for operation in operations)

    def reset(self) -> None:
        self._calls.clear()
        self.budget = 200

    def _counted(self, handle: Callable[[Call], FakeResponse]) -> Callable[[Call], FakeResponse]:
        def run(call: Call) -> FakeResponse:
            token = bearer(call)
            if not self.lab.settings.rate_limits or not token:
                return handle(call)
            headers = self._headers(token)
            try:
                answer = handle(call)
            except RefusedError as refused:
                answer = refused.answer
            return replace(answer, headers={**answer.headers, **headers})

        return run

    def _headers(self, token: str) -> dict[str, str]:
        """Return the usage headers; refuse without counting at the limit."""
        now = self.lab.clock.now_ms()
        recent = self._calls[token] = [at for at in self._calls.get(token, []) if at > now - HOUR_MS]
        if len(recent) >= self.budget:
            minutes = -(-(recent[0] + HOUR_MS - now) // 60_000)
            answer = refuse(self.code, f"(#{self.code}) There have been too many calls to this account").answer
            raise RefusedError(replace(answer, headers=self._usage(100, minutes)))
        recent.append(now)
        return self._usage(100 * len(recent) // self.budget, 0)

    def _usage(self, percent: int, minutes: int) -> dict[str, str]:
        used = {"call_count": percent, "total_time": percent, "total_cputime": percent}
        row = {"type": self.kind, **used, "estimated_time_to_regain_access": minutes}
        return {"x-app-usage": json.dumps(used), "x-business-use-case-usage": json.dumps({"lab": [row]})}
