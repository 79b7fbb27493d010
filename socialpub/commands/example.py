"""`socialpub config example`: settings file with all defaults (`socialpub.toml.example`)."""

from __future__ import annotations

import json

from socialpub import platforms
from socialpub.base import config
from socialpub.commands.parts import Options


def text() -> str:
    """Return every setting with default and help, commented out."""
    return config.example({name: platform.site for name, platform in platforms.PLATFORMS.items()})


def show(options: Options) -> None:
    """Print the file; with `--json` as one JSON string."""
    print(json.dumps(text(), ensure_ascii=False) if options.json else text(), end="\n" if options.json else "")
