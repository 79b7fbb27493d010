"""Naive at-least-once publishing protocol that resends after crashes: a negative control.

Runs with it must break the invariants; if they did not, the harness would prove nothing.
"""

from __future__ import annotations

from socialpub.base.errors import ApiError
from socialpub.domain.publishing import run as publish
from socialpub.domain.publishing.decide import AmbiguityRecorded, BindRemotePost, RunFinding, RunResumed
from socialpub.domain.publishing.run import _PublishRun
from socialpub.store.rows import IntentRow


def install() -> None:
    publish._PublishRun = AtLeastOnceRun  # type: ignore[misc]


class AtLeastOnceRun(_PublishRun):
    def _execute_step(self, intent: IntentRow, finding: RunFinding) -> None:
        if isinstance(finding, RunResumed | AmbiguityRecorded):
            self._again(intent)
        else:
            super()._execute_step(intent, finding)

    def _again(self, intent: IntentRow) -> None:
        """Fresh content, sent once more, without a look."""
        draft = self._draft()
        prepared = self.up.call(lambda up: self.up.connector.prepare(up, _fresh(self, draft), None))
        if not hasattr(prepared, "plan"):
            prepared = self.up.call(lambda up: self.up.connector.prepare(up, draft, prepared.saved))  # type: ignore[union-attr]
        try:
            published = self.up.call(lambda up: self.up.connector.send(up, prepared.plan))  # type: ignore[union-attr]
        except ApiError as error:
            self._fail(error, intent, "given up")
            return
        self._bind(intent, BindRemotePost(published))  # type: ignore[arg-type]


def _fresh(run: _PublishRun, draft):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    return replace(draft, now_ms=run.service.now_ms, nonce=int.from_bytes(run.service.runtime.entropy(7), "big"))
