"""Type of the pytest fixture that reports measured values, and whether times decide."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.support.database_costs import counting as counting

ReportLine = Callable[[str], None]

# Where nobody knows how busy the machine is (CI), times are told and counts decide.
TIMED = os.environ.get("WALLS_TIMES", "decide") == "decide"
