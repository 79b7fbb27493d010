"""Type of the pytest fixture that reports measured values."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.database_costs import counting as counting

ReportLine = Callable[[str], None]
