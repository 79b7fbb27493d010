"""Check of the whole database file in the background, after a start that has one pending."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable

from socialpub.base.errors import ApiError
from socialpub.base.system import os_errors
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.server import instance
from socialpub.store.engine.integrity import IntegrityScan, lower_thread_priority

log = logging.getLogger("socialpub.store")

JOIN_SECONDS = 0.05
RETRY_SECONDS = 30.0


class BackgroundIntegrityCheck:
    """Integrity check in a thread. `holds`: due posts wait for it, or the file is damaged."""

    def __init__(self, service: AppContext) -> None:
        self._service, self._scan = service, IntegrityScan(service.db.path)
        self.on_result: Callable[[], None] = lambda: None
        self.holds = service.process.pending_check is not None and service.process.pending_check.first
        self._thread = threading.Thread(target=self._run, name="whole-file", daemon=True)

    def start(self) -> None:
        """Start the check, if one is pending."""
        if self._service.process.pending_check is not None:
            waits = "due posts wait for the result" if self.holds else "publishing continues meanwhile"
            log.warning(
                "checking all of %s (%s); %s", self._service.db.path, self._service.process.pending_check.why, waits
            )
            self._thread.start()

    def stop(self) -> None:
        """Stop the check; an unfinished one is pending again at the next start."""
        while self._thread.is_alive():
            self._scan.stop()
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        lower_thread_priority()
        problems = self._find_problems()
        if problems:
            self._report_damage("; ".join(problems))
        elif problems is not None:
            log.info("checked all of %s: no damage found", self._service.db.path)
            self._service.process.pending_check, self.holds = None, False
            self.on_result()

    def _find_problems(self) -> list[str] | None:
        """Scan the file, until the system lets it be read to its end; None if stopped before."""
        while True:
            try:
                return self._scan.problems()
            except (OSError, sqlite3.DatabaseError) as error:
                path, why = self._service.db.path, os_errors.describe(error)
                log.warning("%s cannot be checked: %s; next try in %d s", path, why, RETRY_SECONDS)
                self._scan.wait(RETRY_SECONDS)

    def _report_damage(self, why: str) -> None:
        self.holds = True  # even if the pause cannot be stored
        log.critical(
            "%s is damaged (%s): publishing is paused. Stop the server and restore a backup",
            self._service.db.path,
            why,
        )
        try:
            self._service.write(lambda tx: instance.pause(self._service, tx, instance.DAMAGED)).result()
        except ApiError:
            log.critical("the pause could not be stored in the damaged database: the next start checks it again")
        self.on_result()
