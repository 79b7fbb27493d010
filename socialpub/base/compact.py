"""JSON as it is sent and stored: no spaces, no escapes that nobody needs."""

from __future__ import annotations

import json
from typing import Any


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
