"""Type of the pytest fixture that reports measured values, and whether times decide."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.support.database_costs import counting as counting

ReportLine = Callable[[str], None]

# False in CI, whose machines are busy: times are printed there, and only counts are asserted.
TIMED = os.environ.get("WALLS_TIMES", "decide") == "decide"
