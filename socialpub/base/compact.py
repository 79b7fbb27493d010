"""JSON as it is sent and stored: no spaces, no escapes that nobody needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

dumps: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Whatever JSON has; one encoder, for making it takes as long as a short text."""
strict: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
"""The same for others, as httpx makes it; ValueError for NaN and the infinities, which are no JSON."""
