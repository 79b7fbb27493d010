"""Python client of socialpub: publish, check, watch and change posts over its HTTP API."""

from __future__ import annotations

__version__ = "0.1.0"
