"""Settings loaded from a file, the environment and the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from socialpub.base import config
from socialpub.base.config import Settings


def load_settings(text: str, overrides: dict[str, dict[str, Any]] | None = None) -> Settings:
    path = Path("given.toml")
    path.write_text(text, encoding="utf-8")
    return config.load(path, overrides)
