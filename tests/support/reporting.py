"""The type of the fixture that reports what a test measured."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.database_costs import counting as counting

ReportLine = Callable[[str], None]
