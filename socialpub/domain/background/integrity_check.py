"""The look at the whole file after a start that owes it one: in the background, and its result told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from socialpub.base.errors import ApiError
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.server import instance
from socialpub.store.engine.integrity import IntegrityScan, lower_thread_priority

log = logging.getLogger("socialpub.store")

JOIN_SECONDS = 0.05


class BackgroundIntegrityCheck:
    """`holds`: what is due waits for the look. Damage pauses publishing, also after the next start."""

    def __init__(self, service: AppContext) -> None:
        self._service, self._look = service, IntegrityScan(service.db.path)
        self.on_known: Callable[[], None] = lambda: None
        self.holds = service.process.owed is not None and service.process.owed.first
        self._thread = threading.Thread(target=self._run, name="whole-file", daemon=True)

    def start(self) -> None:
        """Begin, where a look is owed."""
        if self._service.process.owed is not None:
            waits = "what is due waits for it" if self.holds else "publishing goes on meanwhile"
            log.warning("all of %s is looked at (%s); %s", self._service.db.path, self._service.process.owed.why, waits)
            self._thread.start()

    def stop(self) -> None:
        """The next start owes the look that is not at its end."""
        while self._thread.is_alive():
            self._look.stop()
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        lower_thread_priority()
        problems = self._look.problems()
        if problems:
            self._damaged("; ".join(problems))
        elif problems is not None:
            log.info("all of %s was looked at: it is whole", self._service.db.path)
            self._service.process.owed, self.holds = None, False
            self.on_known()

    def _damaged(self, why: str) -> None:
        self.holds = True  # also where the pause cannot be written
        log.critical(
            "%s is damaged (%s): publishing is paused. Stop the server and put a backup in its place",
            self._service.db.path,
            why,
        )
        try:
            self._service.write(lambda tx: instance.pause(self._service, tx, instance.DAMAGED)).result()
        except ApiError:
            log.critical("that it is damaged could not be written into it: the next start looks again")
        self.on_known()
