"""`socialpub config example`: the settings file with every default, as `socialpub.toml.example` in the repository."""

from __future__ import annotations

import json

from socialpub import platforms
from socialpub.base import config
from socialpub.commands.parts import Options


def text() -> str:
    """Every setting with its default and its help, all commented out."""
    return config.example({name: platform.site for name, platform in platforms.PLATFORMS.items()})


def show(options: Options) -> None:
    """Print the file; with `--json` as one JSON string."""
    print(json.dumps(text(), ensure_ascii=False) if options.json else text(), end="\n" if options.json else "")
